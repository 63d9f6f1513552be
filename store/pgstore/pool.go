package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

// NewPool opens a pool for one term, through a guard. Every connection carries the term's token,
// and is closed when the term is lost; from then on the pool opens none, and its errors give the
// cause. When the guard answers that the token is stale, the term is superseded. At a database
// without a guard, where the token would have no effect, no connection is handed out
// (*fence.SetupError): use Begin there. To find out costs each new connection a round trip.
//
// Direct sessions need raisers: after a restart of the database or a failover it refuses the term
// (fence.ErrNotRaised) until somebody has raised the mark again. The next connection that the pool
// opens then raises it first. A guard does so itself.
//
// Close the pool when the term's work is over; the next term needs a pool of its own. Close can
// take 15 s when the guard does not answer, because pgx waits that long to cancel what was running.
// A program that gives up its term for that reason resigns first (Term.Resign), so that the next
// leader need not wait. The fence makes that safe.
func NewPool(
	ctx context.Context, term *fence.Term, cfg *pgxpool.Config, raisers ...fence.Raiser,
) (*pgxpool.Pool, error) {
	cfg = cfg.Copy()
	p := &termPool{
		term: term, raisers: raisers, config: *cfg, onError: cfg.ConnConfig.OnPgError,
	}
	//lint:ignore SA1019 the pool would call it itself if there were no PrepareConn
	p.beforeAcquire = cfg.BeforeAcquire
	cfg.BeforeConnect = p.beforeConnect
	cfg.AfterConnect = p.afterConnect
	cfg.BeforeClose = p.beforeClose
	cfg.PrepareConn = p.prepare
	cfg.ConnConfig.OnPgError = p.onPgError
	options := cfg.ConnConfig.RuntimeParams["options"]
	cfg.ConnConfig.RuntimeParams["options"] = AppendOptions(options, term.Claim())
	return pgxpool.NewWithConfig(ctx, cfg)
}

// termPool ties a pool's connections to a term. It also calls the functions that the caller has set
// in its configuration.
type termPool struct {
	term      *fence.Term
	raisers   []fence.Raiser
	notRaised atomic.Bool    // as the last refusal said
	config    pgxpool.Config // the caller's
	// The caller's BeforeAcquire, which the pool does not call when there is a PrepareConn.
	beforeAcquire func(context.Context, *pgx.Conn) bool
	onError       pgconn.PgErrorHandler // the caller's OnPgError
}

// lost returns why there are no connections any more, or nil while the term lasts.
func (p *termPool) lost() error {
	if p.term.State() != fence.Lost {
		return nil
	}
	return fmt.Errorf("no connection under %s: %w", p.term.Claim(), context.Cause(p.term.Context()))
}

func (p *termPool) beforeConnect(ctx context.Context, cfg *pgx.ConnConfig) error {
	err := p.lost()
	if err == nil && p.notRaised.Swap(false) {
		err = p.raise(ctx)
	}
	if err != nil || p.config.BeforeConnect == nil {
		return err
	}
	return p.config.BeforeConnect(ctx, cfg)
}

// raise raises the mark again. If it fails, the next connection tries again.
func (p *termPool) raise(ctx context.Context) error {
	for _, r := range p.raisers {
		if err := r.Raise(ctx, p.term.Claim()); err != nil {
			p.notRaised.Store(true)
			p.refused(err)
			return err
		}
	}
	return nil
}

// prepare is called before the pool hands out a connection. Without it, a connection that was
// closed at the end of the term would fail without the cause.
func (p *termPool) prepare(ctx context.Context, c *pgx.Conn) (bool, error) {
	err := p.lost()
	switch {
	case err != nil:
		return false, err
	case p.config.PrepareConn != nil:
		return p.config.PrepareConn(ctx, c)
	case p.beforeAcquire != nil:
		return p.beforeAcquire(ctx, c), nil
	}
	return true, nil
}

// stopKey is the key of a connection's custom data for the function that stops waiting for the end
// of the term.
const stopKey = "ringfence.term"

func (p *termPool) afterConnect(ctx context.Context, c *pgx.Conn) error {
	socket := c.PgConn().Conn()
	stop := context.AfterFunc(p.term.Context(), func() { _ = socket.Close() })
	c.PgConn().CustomData()[stopKey] = stop
	err := p.guarded(ctx, c)
	if err == nil && p.config.AfterConnect != nil {
		err = p.config.AfterConnect(ctx, c)
	}
	if err != nil {
		stop() // the pool discards the connection without a call of beforeClose
	}
	return err
}

// guarded returns nil if a guard has admitted the session under the term's claim.
func (p *termPool) guarded(ctx context.Context, c *pgx.Conn) error {
	held, err := pgmarks.Held(ctx, c, p.term.Claim())
	if lost := p.lost(); lost != nil {
		return lost
	}
	if held || err != nil && !errors.Is(err, fence.ErrNotInstalled) {
		return err
	}
	return &fence.SetupError{
		What:  "no guard answers at this address, so a session there is not fenced",
		Hint:  "give the guard's address, or begin each transaction under the token (pgstore.Begin)",
		Cause: err,
	}
}

func (p *termPool) beforeClose(c *pgx.Conn) {
	if stop, ok := c.PgConn().CustomData()[stopKey].(func() bool); ok {
		stop()
	}
	if p.config.BeforeClose != nil {
		p.config.BeforeClose(c)
	}
}

// onPgError is called with every error that a server or guard sends, at login too. A fatal error is
// about the session, which may also have claims for other resources. Any other error is about a
// transaction, whose claim need not be the term's.
func (p *termPool) onPgError(c *pgconn.PgConn, e *pgconn.PgError) bool {
	fatal := slices.Contains([]string{e.Severity, e.SeverityUnlocalized}, "FATAL")
	if fatal {
		p.refused(pgmarks.Refused(e, fence.Claim{}))
	}
	return !fatal && (p.onError == nil || p.onError(c, e))
}

// refused ends the term if its own token is stale, and notes that the mark has to be raised. An
// error that names no resource, such as one of an older guard, ends only the connection.
func (p *termPool) refused(err error) {
	own := p.term.Claim()
	r, ok := errors.AsType[*fence.Refusal](err)
	switch {
	case !ok || r.Claim.Resource != own.Resource || r.Claim.Token != own.Token:
	case r.Reason == fence.ErrStale:
		r.Claim = own
		p.term.Supersede(r)
	case r.Reason == fence.ErrNotRaised:
		p.notRaised.Store(true)
	}
}
