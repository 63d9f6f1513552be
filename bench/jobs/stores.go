package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/ways"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/servers"
)

// Stores on which a worker raises the mark before each job.
const (
	noStore = "none"
	direct  = "direct"
	guarded = "guard"
)

const storesNote = "store: a Postgres of its own, on which one worker raises the mark before " +
	"each job; the handler does not use it. CPU: of all servers, the guard and the worker, for each " +
	"job."

// withStore measures how many jobs one worker finishes per second, and what a job costs.
func withStore(store string) cell {
	name := "done store=" + store
	return cell{
		[]report.Row{{Name: name, Unit: "1/s"}, {Name: name + " CPU", Unit: "ms", Lower: true}},
		[]string{zooKeeper, etcd, postgres},
		func(ctx context.Context, s *stage) ([]float64, error) {
			s.store = s.plan.stores[store]
			var before time.Duration
			speed, err := s.done(ctx, 1, func() (err error) { before, err = familyCPU(); return err })
			if err != nil {
				return nil, err
			}
			after, err := familyCPU()
			return []float64{speed, ms(after-before) / float64(s.plan.jobs)}, err
		},
	}
}

// usesStore reports whether a cell needs a store.
func usesStore(c cell) bool {
	return slices.ContainsFunc([]string{direct, guarded}, func(store string) bool {
		return c.rows[0].Name == "done store="+store
	})
}

// startStore starts a Postgres with the schema, and a guard in front of it.
func (r *running) startStore(ctx context.Context, guard string) error {
	p, err := servers.StartPostgres(ctx, servers.PostgresOptions{Settings: map[string]string{
		"shared_buffers": "128MB", "max_connections": "300",
	}})
	if err != nil {
		return err
	}
	r.close = append(r.close, p.Close)
	admin := p.URL("postgres", "postgres")
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "create role guard_role login; create role app login")
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return err
	}
	if err := pgmarks.Install(ctx, admin, "guard_role"); err != nil {
		return err
	}
	g, err := ways.StartGuard(ctx, ways.GuardOptions{
		Program: guard, Postgres: p.URL("guard_role", "postgres"),
	})
	if err != nil {
		return err
	}
	r.close = slices.Insert(r.close, 0, g.Close)
	r.stores = map[string]string{
		direct:  p.URL("guard_role", "postgres"),
		guarded: fmt.Sprintf("postgres://app@%s/postgres?sslmode=disable", g.Postgres),
	}
	return nil
}
