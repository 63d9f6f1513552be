package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab"
	pgstore "github.com/ringfence/ringfence/store/postgres"
)

// ledgerPG keeps the ledger in Postgres: one transaction for each entry.
type ledgerPG struct {
	w     *worker
	pool  *pgxpool.Pool
	claim fence.Claim
	begin func(ctx context.Context) (pgx.Tx, error)
	cut   context.CancelFunc // closes the sockets
	n     int
}

// postgres opens the ledger for a term: as the product would have it, or so that connections outlive the term.
func (w *worker) postgres(term *fence.Term, m lab.Manners) (*ledgerPG, error) {
	if m == lab.Good && w.c.Route == lab.Guarded && w.c.Flaw == "" {
		cfg, err := w.poolConfig("LAB_POSTGRES", w.c.Postgres, context.Background())
		if err != nil {
			return nil, err
		}
		pool, err := pgstore.Pool(context.Background(), term, cfg)
		return w.ledgerPG(pool, term.Claim(), func() {}), err
	}
	return w.postgresUnder(w.carried(term.Claim()))
}

// postgresUnder opens the ledger under a claim that the route carries, or does not.
func (w *worker) postgresUnder(c fence.Claim) (*ledgerPG, error) {
	open, cut := context.WithCancel(context.Background())
	cfg, err := w.poolConfig("LAB_POSTGRES", w.c.Postgres, open)
	if err != nil {
		cut()
		return nil, err
	}
	if w.c.Route == lab.Guarded {
		params := cfg.ConnConfig.RuntimeParams
		params["options"] = pgstore.Option(params["options"], c)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		cut()
		return nil, err
	}
	p := w.ledgerPG(pool, c, cut)
	if w.c.Route == lab.Embedded {
		p.begin = func(ctx context.Context) (pgx.Tx, error) { return pgstore.Begin(ctx, pool, c, pgx.TxOptions{}) }
	}
	return p, nil
}

func (w *worker) ledgerPG(pool *pgxpool.Pool, c fence.Claim, cut context.CancelFunc) *ledgerPG {
	return &ledgerPG{w: w, pool: pool, claim: c, begin: func(ctx context.Context) (pgx.Tx, error) { return pool.Begin(ctx) }, cut: cut}
}

// poolConfig has few connections, and none that is waited for longer than for an operation. A socket is closed when open
// ends: what a held link keeps from being said would be waited for.
func (w *worker) poolConfig(variable, url string, open context.Context) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	cfg.MaxConns = 2
	cfg.ConnConfig.ConnectTimeout = w.c.Deadline
	cfg.ConnConfig.RuntimeParams["application_name"] = w.c.Name
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		socket := conn.PgConn().Conn()
		context.AfterFunc(open, func() { _ = socket.Close() })
		return nil
	}
	return cfg, nil
}

// pool is of connections without a token.
func (w *worker) pool(variable, url string, open context.Context) (*pgxpool.Pool, error) {
	cfg, err := w.poolConfig(variable, url, open)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 4 // a standby follows over one of them
	return pgxpool.NewWithConfig(context.Background(), cfg)
}

func (p *ledgerPG) write(ctx context.Context, op string, token fence.Token) result {
	p.n++
	within, cancel := context.WithTimeout(ctx, p.w.c.Deadline)
	defer cancel()
	tx, err := p.begin(within)
	if err != nil {
		return beforeCommit(err, p.claim)
	}
	defer p.rollBack(ctx, tx)
	if _, err := tx.Exec(within, "insert into ledger (op, token) values ($1, $2)", op, int64(token)); err != nil {
		return beforeCommit(err, p.claim)
	}
	stop := p.w.steer.asked()
	if stop || p.n%lockEvery == 0 {
		if _, err := tx.Exec(within, "update account set balance = balance + 1"); err != nil {
			return beforeCommit(err, p.claim)
		}
	}
	if stop {
		p.w.standInside(ctx)
		within, cancel = context.WithTimeout(ctx, p.w.c.Deadline) // the time in there does not count
		defer cancel()
	}
	return committed(tx.Commit(within))
}

// lockEvery is how often a transaction locks the one row of account.
const lockEvery = 10

// rollBack ends a transaction that was not committed, and gives the connection back.
func (p *ledgerPG) rollBack(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = tx.Rollback(ctx) // a connection on which that fails is thrown away
}

func (p *ledgerPG) close() {
	p.cut()
	p.pool.Close()
}
