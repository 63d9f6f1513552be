package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// contender runs tasks of so many steps each, all tasks at once.
type contender interface {
	run(ctx context.Context, tasks []string, steps int64) (timed, error)
	close()
}

// timed is how long it took: all of it, and each step from the end of the task's step before, or its start, until its own
// end was durable.
type timed struct {
	all  time.Duration
	laps []time.Duration
}

// entry is a contender that can be entered for the race.
type entry struct {
	name string
	note string // how it is run, for the reader
	open func(ctx context.Context, s *stage, c conditions) (contender, error)
}

// The names, which the ratios go by.
const (
	handwritten = "by hand"
	fenceOff    = "fence off"
	fenceOn     = "fence on"
	throughIt   = "fence on, guard"
	theQueue    = "river"
)

var entries = []entry{
	{handwritten, "begin; effect; upsert of a progress row; commit, with pgx", openByHand},
	{fenceOff, "Task.Run with a synchronous step, in a database in which nothing checks", openFenceOff},
	{fenceOn, "Task.Run with a synchronous step", openFenceOn},
	{throughIt, "the same, every connection through a guard in a process of its own", openGuarded},
	{theQueue, riverNote, openRiver},
}

// conditions are the same for everybody.
type conditions struct {
	commit string // synchronous_commit
	trips  *trips // counts round trips; may be nil
}

// connections are enough for 16 tasks and what else a contender keeps open.
const connections = 16 + 8

// pool is a contender's configuration.
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

// effect is what every step does: the same statement for all.
func effect(ctx context.Context, tx pgx.Tx, task string, s state) (state, error) {
	s.N++
	s.Balance += s.N % 7
	_, err := tx.Exec(ctx, "insert into ledger (task, n, amount) values ($1, $2, $3)", task, s.N, s.N%7)
	return s, err
}

// stopwatch takes the laps of one task.
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

// atOnce runs every task in a goroutine of its own.
func atOnce(ctx context.Context, tasks []string, one func(ctx context.Context, task string, w *stopwatch) error) (t timed, err error) {
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
