package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
)

// Pool opens a pool for one term, at a guard: every connection carries the term's token and is closed when the term is
// lost; from then on none is opened, and the pool's errors tell the cause. When the guard says that the token is stale,
// the term is superseded. Close the pool when the term's work is over; the next term needs a pool of its own.
//
// At a database without a guard the token means nothing; use Begin there.
func Pool(ctx context.Context, term *fence.Term, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	cfg = cfg.Copy()
	p := termPool{term: term, connect: cfg.BeforeConnect, connected: cfg.AfterConnect, closing: cfg.BeforeClose, told: cfg.ConnConfig.OnPgError}
	cfg.BeforeConnect, cfg.AfterConnect, cfg.BeforeClose = p.beforeConnect, p.afterConnect, p.beforeClose
	cfg.ConnConfig.OnPgError = p.onPgError
	cfg.ConnConfig.RuntimeParams["options"] = Option(cfg.ConnConfig.RuntimeParams["options"], term.Claim())
	return pgxpool.NewWithConfig(ctx, cfg)
}

// termPool is what ties a pool's connections to a term, around the hooks that its configuration had.
type termPool struct {
	term      *fence.Term
	connect   func(context.Context, *pgx.ConnConfig) error
	connected func(context.Context, *pgx.Conn) error
	closing   func(*pgx.Conn)
	told      pgconn.PgErrorHandler
}

func (p termPool) beforeConnect(ctx context.Context, cfg *pgx.ConnConfig) error {
	if p.term.State() == fence.Lost {
		return fmt.Errorf("no connection under %s: %w", p.term.Claim(), context.Cause(p.term.Context()))
	}
	if p.connect != nil {
		return p.connect(ctx, cfg)
	}
	return nil
}

// hook is where a connection keeps what unties it from the term.
const hook = "ringfence.term"

func (p termPool) afterConnect(ctx context.Context, c *pgx.Conn) error {
	socket := c.PgConn().Conn()
	c.PgConn().CustomData()[hook] = context.AfterFunc(p.term.Context(), func() { _ = socket.Close() })
	if p.connected != nil {
		return p.connected(ctx, c)
	}
	return nil
}

func (p termPool) beforeClose(c *pgx.Conn) {
	if untie, ok := c.PgConn().CustomData()[hook].(func() bool); ok {
		untie()
	}
	if p.closing != nil {
		p.closing(c)
	}
}

// onPgError hears of every error that a server or guard sends, at login too.
func (p termPool) onPgError(c *pgconn.PgConn, e *pgconn.PgError) bool {
	if e.Code == codes[fence.Stale] {
		p.term.Supersede(Refused(e, p.term.Claim()))
	}
	fatal := slices.Contains([]string{e.Severity, e.SeverityUnlocalized}, "FATAL")
	return !fatal && (p.told == nil || p.told(c, e))
}
