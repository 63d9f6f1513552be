package checkpoint

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// byHand does what people write by hand: effect and progress in one transaction.
type byHand struct{ pool *pgxpool.Pool }

func openByHand(ctx context.Context, s *stage, c conditions) (contender, error) {
	cfg, err := c.pool(s.directURL())
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	return byHand{pool}, err
}

func (b byHand) close() { b.pool.Close() }

func (b byHand) run(ctx context.Context, tasks []string, steps int64) (timed, error) {
	return atOnce(ctx, tasks, func(ctx context.Context, task string, w *stopwatch) (err error) {
		var s state
		w.start()
		for s.N < steps {
			if s, err = b.step(ctx, task, s); err != nil {
				return err
			}
			w.lap()
		}
		return nil
	})
}

func (b byHand) step(ctx context.Context, task string, s state) (state, error) {
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		return s, err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after COMMIT it does nothing
	s, err = effect(ctx, tx, task, s)
	if err != nil {
		return s, err
	}
	_, err = tx.Exec(ctx, `insert into progress (task, step, state, saved_at)
	    values ($1, $2, $3, now()) on conflict (task) do update
	    set step = excluded.step, state = excluded.state, saved_at = excluded.saved_at`,
		task, s.N, s)
	if err != nil {
		return s, err
	}
	return s, tx.Commit(ctx)
}
