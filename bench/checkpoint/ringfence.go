package checkpoint

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/pgjournal"
	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/store/pgstore"
)

// ringfence runs tasks of one synchronous step, with one round for each step.
type ringfence struct {
	term    *fence.Term
	pool    *pgxpool.Pool
	journal *pgjournal.Journal
}

func openFenceOn(ctx context.Context, s *stage, c conditions) (contender, error) {
	return s.open(ctx, c, s.directURL())
}

func openGuarded(ctx context.Context, s *stage, c conditions) (contender, error) {
	cfg, err := c.pool(s.guardURL())
	if err != nil {
		return nil, err
	}
	pool, err := pgstore.NewPool(ctx, s.term, cfg)
	return s.over(pool, err)
}

func openFenceOff(ctx context.Context, s *stage, c conditions) (contender, error) {
	return s.open(ctx, c, s.pg.URL("app", unfenced))
}

// open makes a contender over a pool whose connections carry no token.
func (s *stage) open(ctx context.Context, c conditions, url string) (contender, error) {
	cfg, err := c.pool(url)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	return s.over(pool, err)
}

// over makes a contender that works over a pool.
func (s *stage) over(pool *pgxpool.Pool, err error) (contender, error) {
	if err != nil {
		return nil, err
	}
	journal := pgjournal.New(pool, pgjournal.Options{})
	return &ringfence{term: s.term, pool: pool, journal: journal}, nil
}

func (r *ringfence) close() {
	r.journal.Close()
	r.pool.Close()
}

func (r *ringfence) run(ctx context.Context, tasks []string, steps int64) (timed, error) {
	return atOnce(ctx, tasks, func(ctx context.Context, name string, w *stopwatch) error {
		step := func(ctx context.Context, tx pgx.Tx, s state) (state, error) {
			return effect(ctx, tx, name, s)
		}
		task := checkpoint.Task[state]{
			Name: checkpoint.Name(name), Rounds: steps,
			Steps: []checkpoint.Step[state]{pgjournal.Step("step", step)},
			Notify: func(e checkpoint.Event) {
				switch e.Kind {
				case taskevent.TookOver:
					w.start()
				case taskevent.Ended:
					w.lap()
				}
			},
		}
		_, err := task.Run(ctx, r.term, r.journal, checkpoint.Checkpoint{})
		return err
	})
}
