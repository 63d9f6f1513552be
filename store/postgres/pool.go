package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	marks "github.com/ringfence/ringfence/internal/marks/postgres"
)

// Pool opens a pool for one term, at a guard: every connection carries the term's token and is closed when the term is
// lost; from then on none is opened, and the pool's errors tell the cause. When the guard says that the token is stale,
// the term is superseded. Close the pool when the term's work is over; the next term needs a pool of its own. Close can take
// 15 s when the guard does not answer, for pgx waits so long to cancel what was running: who gives a term up for that reason
// resigns first (Term.Resign), so that the next leader need not wait. The fence makes that safe.
//
// At a database without a guard the token means nothing; use Begin there.
func Pool(ctx context.Context, term *fence.Term, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	cfg = cfg.Copy()
	p := termPool{term: term, was: *cfg, told: cfg.ConnConfig.OnPgError}
	//lint:ignore SA1019 the pool would ask it itself, were there no PrepareConn
	p.asked = cfg.BeforeAcquire
	cfg.BeforeConnect, cfg.AfterConnect, cfg.BeforeClose = p.beforeConnect, p.afterConnect, p.beforeClose
	cfg.PrepareConn = p.prepare
	cfg.ConnConfig.OnPgError = p.onPgError
	cfg.ConnConfig.RuntimeParams["options"] = Option(cfg.ConnConfig.RuntimeParams["options"], term.Claim())
	return pgxpool.NewWithConfig(ctx, cfg)
}

// termPool is what ties a pool's connections to a term, around the hooks that its configuration had.
type termPool struct {
	term  *fence.Term
	was   pgxpool.Config
	asked func(context.Context, *pgx.Conn) bool // before PrepareConn was
	told  pgconn.PgErrorHandler
}

// lost is why there are no connections any more, or nil.
func (p termPool) lost() error {
	if p.term.State() != fence.Lost {
		return nil
	}
	return fmt.Errorf("no connection under %s: %w", p.term.Claim(), context.Cause(p.term.Context()))
}

func (p termPool) beforeConnect(ctx context.Context, cfg *pgx.ConnConfig) error {
	if err := p.lost(); err != nil || p.was.BeforeConnect == nil {
		return err
	}
	return p.was.BeforeConnect(ctx, cfg)
}

// prepare is asked before a connection is given out: one that the end of the term has closed would say no more than that.
func (p termPool) prepare(ctx context.Context, c *pgx.Conn) (bool, error) {
	err := p.lost()
	switch {
	case err != nil:
		return false, err
	case p.was.PrepareConn != nil:
		return p.was.PrepareConn(ctx, c)
	case p.asked != nil:
		return p.asked(ctx, c), nil
	}
	return true, nil
}

// hook is where a connection keeps what unties it from the term.
const hook = "ringfence.term"

func (p termPool) afterConnect(ctx context.Context, c *pgx.Conn) error {
	socket := c.PgConn().Conn()
	untie := context.AfterFunc(p.term.Context(), func() { _ = socket.Close() })
	c.PgConn().CustomData()[hook] = untie
	if p.was.AfterConnect == nil {
		return nil
	}
	err := p.was.AfterConnect(ctx, c)
	if err != nil {
		untie() // the pool throws it away without a word to beforeClose
	}
	return err
}

func (p termPool) beforeClose(c *pgx.Conn) {
	if untie, ok := c.PgConn().CustomData()[hook].(func() bool); ok {
		untie()
	}
	if p.was.BeforeClose != nil {
		p.was.BeforeClose(c)
	}
}

// onPgError hears of every error that a server or guard sends, at login too. A fatal one is about
// the session, which may have claims of other resources, too; any other is about a transaction, whose
// claim need not be the term's.
func (p termPool) onPgError(c *pgconn.PgConn, e *pgconn.PgError) bool {
	fatal := slices.Contains([]string{e.Severity, e.SeverityUnlocalized}, "FATAL")
	if fatal {
		p.refused(marks.Refused(e, fence.Claim{}))
	}
	return !fatal && (p.told == nil || p.told(c, e))
}

// refused ends the term when its own token is stale. An error that names no resource, such as one of
// an older guard, ends only the connection.
func (p termPool) refused(err error) {
	var r *fence.Refusal
	own := p.term.Claim()
	if errors.As(err, &r) && r.Reason == fence.ReasonStale &&
		r.Claim.Resource == own.Resource && r.Claim.Token == own.Token {
		r.Claim = own
		p.term.Supersede(r)
	}
}
