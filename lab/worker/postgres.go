package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/store/pgstore"
)

// ledgerPG keeps the ledger in Postgres: one transaction for each entry.
type ledgerPG struct {
	w            *worker
	pool         *pgxpool.Pool
	claim        fence.Claim
	begin        func(ctx context.Context) (pgx.Tx, error)
	closeSockets context.CancelFunc
	n            int
}

// postgres opens the ledger: with the product's connection pool, or so that connections outlive the
// term.
func (w *worker) postgres(claim fence.Claim, term *fence.Term) (*ledgerPG, error) {
	if w.isGood(term) && w.c.Route == scenario.Guarded && w.c.Flaw == "" {
		cfg, err := w.poolConfig("LAB_POSTGRES", w.c.Postgres, context.Background())
		if err != nil {
			return nil, err
		}
		pool, err := pgstore.NewPool(context.Background(), term, cfg)
		return w.ledgerPG(pool, claim, func() {}), err
	}
	return w.postgresUnder(w.carried(claim))
}

// postgresUnder opens the ledger under a claim, which connections carry if the route demands it.
func (w *worker) postgresUnder(c fence.Claim) (*ledgerPG, error) {
	open, closeSockets := context.WithCancel(context.Background())
	cfg, err := w.poolConfig("LAB_POSTGRES", w.c.Postgres, open)
	if err != nil {
		closeSockets()
		return nil, err
	}
	if w.c.Route == scenario.Guarded {
		params := cfg.ConnConfig.RuntimeParams
		params["options"] = pgstore.AppendOptions(params["options"], c)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		closeSockets()
		return nil, err
	}
	p := w.ledgerPG(pool, c, closeSockets)
	if w.c.Route == scenario.Embedded {
		p.begin = func(ctx context.Context) (pgx.Tx, error) {
			return pgstore.Begin(ctx, pool, c, pgx.TxOptions{})
		}
	}
	return p, nil
}

func (w *worker) ledgerPG(
	pool *pgxpool.Pool, c fence.Claim, closeSockets context.CancelFunc,
) *ledgerPG {
	return &ledgerPG{w: w, pool: pool, claim: c, begin: pool.Begin, closeSockets: closeSockets}
}

// poolConfig allows few connections, and waits no longer for one than for an operation. The end of
// the context open closes all sockets: otherwise close would wait for data that a link holds.
func (w *worker) poolConfig(
	variable, url string, open context.Context,
) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	cfg.MaxConns = 2
	if w.c.Route == scenario.SQL {
		// a pooler in transaction mode keeps no statements
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	cfg.ConnConfig.ConnectTimeout = w.c.Deadline
	cfg.ConnConfig.RuntimeParams["application_name"] = w.c.Name
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		socket := conn.PgConn().Conn()
		context.AfterFunc(open, func() { _ = socket.Close() })
		return nil
	}
	return cfg, nil
}

// pool makes a pool of connections without a token.
func (w *worker) pool(variable, url string, open context.Context) (*pgxpool.Pool, error) {
	cfg, err := w.poolConfig(variable, url, open)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 4 // a standby uses one of them to follow the task
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
	defer rollBack(ctx, tx)
	_, err = tx.Exec(within, "insert into ledger (op, token) values ($1, $2)", op, int64(token))
	if err != nil {
		return beforeCommit(err, p.claim)
	}
	stop := p.w.signals.stopRequested()
	if stop || p.n%lockEvery == 0 {
		if _, err := tx.Exec(within, "update account set balance = balance + 1"); err != nil {
			return beforeCommit(err, p.claim)
		}
	}
	if stop {
		p.w.waitInside(ctx)
		within, cancel = context.WithTimeout(ctx, p.w.c.Deadline) // the stop does not count
		defer cancel()
	}
	return committed(tx.Commit(within))
}

// lockEvery: every tenth transaction locks the one row of account.
const lockEvery = 10

// rollBack ends a transaction that was not committed, and returns the connection to the pool.
func rollBack(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = tx.Rollback(ctx) // if that fails, the pool discards the connection
}

func (p *ledgerPG) close() {
	p.closeSockets()
	p.pool.Close()
}
