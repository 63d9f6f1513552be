package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const riverNote = "one job per step; effect, the next step's job and JobCompleteTx in one " +
	"transaction; FetchCooldown at its minimum of 1 ms, listening for inserts, two workers per " +
	"task, no maintenance services"

// queue is River, with a worker that runs one step and queues the next.
type queue struct{ pool *pgxpool.Pool }

func openRiver(ctx context.Context, s *stage, c conditions) (contender, error) {
	cfg, err := c.pool(s.directURL())
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	silent := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: silent})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("river's tables: %w", err)
	}
	return queue{pool}, nil
}

func (q queue) close() { q.pool.Close() }

// run starts a client only for these tasks; its start and stop are not timed.
func (q queue) run(ctx context.Context, tasks []string, steps int64) (t timed, err error) {
	w := &worker{
		pool: q.pool, watches: map[string]*stopwatch{}, ended: make(chan error, len(tasks)),
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(riverpgxv5.New(q.pool), &river.Config{
		Queues: map[string]river.QueueConfig{
			river.QueueDefault: {MaxWorkers: 2 * len(tasks)},
		},
		FetchCooldown: river.FetchCooldownMin, FetchPollInterval: 100 * time.Millisecond,
		LeaderElectionDisabled: true, MaxAttempts: 1, Logger: slog.New(slog.DiscardHandler),
		Workers: workers,
	})
	if err != nil {
		return t, err
	}
	if err := client.Start(ctx); err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, client.Stop(context.WithoutCancel(ctx))) }()
	return w.race(ctx, client, tasks, steps)
}

// stepArgs are the arguments of a job.
type stepArgs struct {
	Task  string `json:"task"`
	Steps int64  `json:"steps"`
	State state  `json:"state"`
}

func (stepArgs) Kind() string { return "step" }

// worker runs the steps.
type worker struct {
	river.WorkerDefaults[stepArgs]
	pool  *pgxpool.Pool
	ended chan error // one for each task

	mu      sync.Mutex
	watches map[string]*stopwatch
}

// race queues the first step of every task and waits until all tasks have ended.
func (w *worker) race(
	ctx context.Context, client *river.Client[pgx.Tx], tasks []string, steps int64,
) (t timed, err error) {
	var first []river.InsertManyParams
	start := time.Now()
	for _, task := range tasks {
		w.watches[task] = &stopwatch{last: start}
		first = append(first, river.InsertManyParams{Args: stepArgs{Task: task, Steps: steps}})
	}
	if _, err := client.InsertMany(ctx, first); err != nil {
		return t, err
	}
	for range tasks {
		select {
		case err := <-w.ended:
			if err != nil {
				return t, err
			}
		case <-ctx.Done():
			return t, context.Cause(ctx)
		}
	}
	t.all = time.Since(start)
	for _, watch := range w.watches {
		t.laps = append(t.laps, watch.laps...)
	}
	return t, nil
}

// Work implements river.Worker.
func (w *worker) Work(ctx context.Context, job *river.Job[stepArgs]) error {
	if err := w.step(ctx, job); err != nil {
		w.ended <- fmt.Errorf("task %s: %w", job.Args.Task, err)
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	watch := w.watches[job.Args.Task]
	watch.lap()
	if int64(len(watch.laps)) == job.Args.Steps { // the last step may get here before the previous
		w.ended <- nil
	}
	return nil
}

func (w *worker) step(ctx context.Context, job *river.Job[stepArgs]) error {
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // after COMMIT it does nothing
	next := job.Args
	if next.State, err = effect(ctx, tx, next.Task, next.State); err != nil {
		return err
	}
	if next.State.N < next.Steps {
		if _, err := river.ClientFromContext[pgx.Tx](ctx).InsertTx(ctx, tx, next, nil); err != nil {
			return err
		}
	}
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
