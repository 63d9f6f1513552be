package checkpoint

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/bench/internal/rounds"
)

// plan says how much is measured.
type plan struct {
	rounds int
	slice  time.Duration
}

// taskCounts are how many tasks run at once: one, and as many as a busy leader may have.
var taskCounts = []int{1, 16}

// commits are the values of synchronous_commit: durable, and without waiting for the disk, whose
// time hides the other costs.
var commits = []string{"on", "off"}

// cell is one contender under one set of conditions.
type cell struct {
	entry  entry
	commit string
	tasks  int

	contender contender
	steps     int64 // of each task, in one measurement
	rates     []float64
	p50, p99  []float64 // of each round, in seconds
}

// measure runs the contenders in turns, so that a disturbance of the machine affects all equally.
func measure(ctx context.Context, s *stage, p plan, progress io.Writer) (*report, error) {
	r, err := newReport(ctx, s, p)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		fmt.Fprintf(progress, "counting the round trips of: %s\n", e.name)
		if r.trips[e.name], err = e.roundTrips(ctx, s); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	all, err := openAll(ctx, s)
	defer closeAll(all)
	if err != nil {
		return nil, err
	}
	r.cells = all
	for _, c := range all {
		if err := c.warmUp(ctx, s, p.slice); err != nil {
			return nil, fmt.Errorf("%s: %w", c.entry.name, err)
		}
	}
	for round := range p.rounds {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, p.rounds)
		for _, c := range turn(all, round) {
			if err := c.measure(ctx, s); err != nil {
				return nil, fmt.Errorf("%s: %w", c.entry.name, err)
			}
		}
	}
	return r, nil
}

// openAll makes all cells. Those that are compared are next to each other.
func openAll(ctx context.Context, s *stage) (all []*cell, err error) {
	contenders := map[string]contender{}
	for _, commit := range commits {
		for _, tasks := range taskCounts {
			for _, e := range entries {
				key := commit + " " + e.name
				if contenders[key] == nil {
					contenders[key], err = e.open(ctx, s, conditions{commit: commit})
					if err != nil {
						return all, fmt.Errorf("%s: %w", e.name, err)
					}
				}
				c := &cell{entry: e, commit: commit, tasks: tasks, contender: contenders[key]}
				all = append(all, c)
			}
		}
	}
	return all, nil
}

func closeAll(all []*cell) {
	for _, c := range all {
		if c.tasks == taskCounts[0] { // the others have the same contender
			c.contender.close()
		}
	}
}

// turn returns the order of a round. Those that are compared take turns among themselves.
func turn(all []*cell, round int) (order []*cell) {
	for group := range slices.Chunk(all, len(entries)) {
		order = append(order, rounds.Turn(group, round)...)
	}
	return order
}

// warmUp opens the connections, and finds out how many steps fit into a slice of time.
func (c *cell) warmUp(ctx context.Context, s *stage, slice time.Duration) error {
	c.steps = 20
	for range 2 {
		if err := c.measure(ctx, s); err != nil {
			return err
		}
	}
	wanted := c.rates[1] * slice.Seconds() / float64(c.tasks)
	c.steps = max(c.steps, int64(math.Round(wanted)))
	c.rates, c.p50, c.p99 = nil, nil, nil
	return nil
}

var named atomic.Int64

// names returns names of new tasks.
func names(n int) (tasks []string) {
	for range n {
		tasks = append(tasks, fmt.Sprintf("task-%d", named.Add(1)))
	}
	return tasks
}

// measure makes one measurement. It fails if a step was lost or done twice.
func (c *cell) measure(ctx context.Context, s *stage) error {
	tasks := names(c.tasks)
	before, err := s.effects(ctx, c.entry)
	if err != nil {
		return err
	}
	t, err := c.contender.run(ctx, tasks, c.steps)
	if err != nil {
		return err
	}
	total := c.steps * int64(c.tasks)
	if int64(len(t.laps)) != total {
		return fmt.Errorf("%d steps were timed, not %d", len(t.laps), total)
	}
	slices.Sort(t.laps)
	c.rates = append(c.rates, float64(total)/t.all.Seconds())
	c.p50 = append(c.p50, rounds.Percentile(t.laps, 0.50).Seconds())
	c.p99 = append(c.p99, rounds.Percentile(t.laps, 0.99).Seconds())
	after, err := s.effects(ctx, c.entry)
	if err == nil && after-before != total {
		err = fmt.Errorf("%d steps had %d effects", total, after-before)
	}
	return err
}

// effects returns the number of rows in the ledger.
func (s *stage) effects(ctx context.Context, e entry) (rows int64, err error) {
	database := fenced
	if e.name == fenceOff {
		database = unfenced
	}
	conn, err := pgx.Connect(ctx, s.pg.URL("app", database))
	if err != nil {
		return 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, "select count(*) from ledger").Scan(&rows)
	return rows, err
}
