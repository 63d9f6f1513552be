package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/ringfence/ringfence/bench/internal/program"
)

const riverNote = "river: one client for each worker process, FetchCooldown at its minimum of 1 " +
	"ms, listening for inserts, no maintenance services. It has no assignments of its own: a worker " +
	"fetches what it runs. It rescues jobs of a worker that is gone after RescueStuckJobsAfter, an " +
	"hour by default, so it is in no row of recovery."

var silent = slog.New(slog.DiscardHandler)

func migrateRiver(ctx context.Context, url string) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: silent})
	if err == nil {
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		return fmt.Errorf("river's tables: %w", err)
	}
	return nil
}

// riverQueue is a queue of River.
type riverQueue struct {
	plan   plan
	url    string
	name   string
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

func openRiver(ctx context.Context, p plan, url, name string) (*riverQueue, error) {
	pool, err := pgxpool.New(ctx, url+"&pool_max_conns=16")
	if err != nil {
		return nil, err
	}
	// It only inserts. FetchCooldown also limits how often it notifies workers.
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown: river.FetchCooldownMin, Logger: silent,
	})
	return &riverQueue{p, url, name, pool, client}, err
}

func (r *riverQueue) close() { r.pool.Close() }

// riverJob are the arguments of a job.
type riverJob struct {
	Number int `json:"number"`
}

// Kind implements river.JobArgs.
func (riverJob) Kind() string { return kind }

func (r *riverQueue) submit(ctx context.Context, job int) error {
	_, err := r.client.Insert(ctx, riverJob{job}, &river.InsertOpts{Queue: r.name})
	return err
}

func (r *riverQueue) finished(ctx context.Context) (n int, err error) {
	err = r.pool.QueryRow(ctx,
		"select count(*) from river_job where queue = $1 and state = 'completed'", r.name).Scan(&n)
	return n, err
}

func (r *riverQueue) duty() duty { return duty{Way: withRiver, URL: r.url, Queue: r.name} }

// ready has nothing to wait for: a client that has started fetches jobs.
func (*riverQueue) ready(context.Context, int) error { return nil }

// riverHandler hands jobs to a handler.
type riverHandler struct {
	river.WorkerDefaults[riverJob]
	h *handler
}

// Work implements river.Worker.
func (w *riverHandler) Work(ctx context.Context, job *river.Job[riverJob]) error {
	return w.h.handle(ctx, job.Args.Number)
}

// riverWorker runs a client until ctx ends.
func riverWorker(ctx context.Context, d duty, h *handler) error {
	pool, err := pgxpool.New(ctx, fmt.Sprintf("%s&pool_max_conns=%d", d.URL, d.Capacity+2))
	if err != nil {
		return err
	}
	defer pool.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverHandler{h: h})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:        map[string]river.QueueConfig{d.Queue: {MaxWorkers: d.Capacity}},
		FetchCooldown: river.FetchCooldownMin, FetchPollInterval: 100 * time.Millisecond,
		LeaderElectionDisabled: true, Logger: silent, Workers: workers,
	})
	if err != nil {
		return err
	}
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	h.say("ready")
	<-ctx.Done()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), program.MaxEnd/2)
	defer cancel()
	return client.StopAndCancel(limited)
}
