package checkpoint

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// contender runs tasks of a number of steps, all tasks at once.
type contender interface {
	run(ctx context.Context, tasks []string, steps int64) (timed, error)
	close()
}

// timed has the times of a run: of all of it, and of each step, from the end of the task's previous
// step, or its start, until the end of the step was durable.
type timed struct {
	all  time.Duration
	laps []time.Duration
}

// entry is a contender in the benchmark.
type entry struct {
	name string
	note string // how it runs, for the reader
	open func(ctx context.Context, s *stage, c conditions) (contender, error)
}

// The names of the contenders, which the ratios use.
const (
	handwritten = "by hand"
	fenceOff    = "fence off"
	fenceOn     = "fence on"
	throughIt   = "fence on, guard"
	theQueue    = "river"
)

var entries = []entry{
	{handwritten, "begin; effect; upsert of a progress row; commit, with pgx", openByHand},
	{fenceOff, "Task.Run with a synchronous step, in a database without checks", openFenceOff},
	{fenceOn, "Task.Run with a synchronous step", openFenceOn},
	{throughIt, "the same, every connection through a guard in a separate process", openGuarded},
	{theQueue, riverNote, openRiver},
}

// conditions are the same for all contenders.
type conditions struct {
	commit string // synchronous_commit
	trips  *trips // counts round trips; may be nil
}

// connections are enough for 16 tasks and the other connections of a contender.
const connections = 16 + 8

// pool returns a contender's configuration.
func (c conditions) pool(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = connections
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = c.commit
	if c.trips != nil {
		wrap(cfg, func(conn net.Conn) net.Conn { return &counted{Conn: conn, trips: c.trips} })
	}
	return cfg, nil
}

// wrap puts something between the driver and its connections.
func wrap(cfg *pgxpool.Config, around func(net.Conn) net.Conn) {
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return around(conn), nil
	}
}

// state is what every task carries from step to step.
type state struct {
	N       int64 `json:"n"`
	Balance int64 `json:"balance"`
}

// effect is the effect of every step: the same statement for all contenders.
func effect(ctx context.Context, tx pgx.Tx, task string, s state) (state, error) {
	s.N++
	s.Balance += s.N % 7
	_, err := tx.Exec(ctx, "insert into ledger (task, n, amount) values ($1, $2, $3)", task, s.N,
		s.N%7)
	return s, err
}

// stopwatch measures the steps of one task.
type stopwatch struct {
	last time.Time
	laps []time.Duration
}

func (w *stopwatch) start() { w.last = time.Now() }

func (w *stopwatch) lap() {
	now := time.Now()
	w.laps = append(w.laps, now.Sub(w.last))
	w.last = now
}

// atOnce runs every task in a separate goroutine.
func atOnce(
	ctx context.Context, tasks []string,
	one func(ctx context.Context, task string, w *stopwatch) error,
) (t timed, err error) {
	watches := make([]stopwatch, len(tasks))
	g, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for i, task := range tasks {
		g.Go(func() error {
			if err := one(ctx, task, &watches[i]); err != nil {
				return fmt.Errorf("task %s: %w", task, err)
			}
			return nil
		})
	}
	err = g.Wait()
	t.all = time.Since(start)
	for _, w := range watches {
		t.laps = append(t.laps, w.laps...)
	}
	return t, err
}
