// Package failover measures what a failover costs a leader that writes all the time: how long
// nothing is acknowledged, and how many acknowledged writes the new primary lacks. Three Sentinels
// watch two Redis servers. The leader writes with a driver that follows the Sentinels itself, or
// through a guard that does.
package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/bench/internal/ways"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
)

// settings are the flags.
type settings struct{ report.Options }

// New returns the benchmark.
func New() program.Benchmark {
	return &settings{report.Options{Guard: report.DefaultGuard, Rounds: 3, Limit: 30 * time.Minute}}
}

const guarded = "guard"

// events are what happens to the primary.
var events = []struct {
	name  string
	start func(context.Context, *cluster) error
}{
	{"a planned failover", func(ctx context.Context, c *cluster) error { return c.failover(ctx) }},
	{"the primary is killed", func(_ context.Context, c *cluster) error { return c.first.Kill() }},
	{"the primary is frozen", func(_ context.Context, c *cluster) error { return c.first.Pause() }},
}

// Measure implements program.Benchmark.
func (s *settings) Measure(ctx context.Context, progress io.Writer) (report.Result, error) {
	r := report.New("failover", s.Options)
	r.Note("The Sentinels take a server for down after %s of silence.", downAfter)
	for _, event := range events {
		outage := r.Row(report.Row{
			Name: "nothing is acknowledged, " + event.name, Unit: "ms", Lower: true,
		})
		lost := r.Row(report.Row{
			Name: "acknowledged writes that are lost, " + event.name, Unit: "writes", Lower: true,
		})
		if !s.Wants(outage.Name) && !s.Wants(lost.Name) {
			continue
		}
		fmt.Fprintln(progress, event.name)
		for round := range s.Rounds {
			for _, way := range rounds.Turn([]string{report.Direct, guarded}, round) {
				took, n, err := s.measure(ctx, way, event.start)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", event.name, way, err)
				}
				outage.Add(way, float64(took.Milliseconds()))
				lost.Add(way, float64(n))
			}
		}
	}
	return r, nil
}

// measure lets one failover happen.
func (s *settings) measure(
	ctx context.Context, way string, event func(context.Context, *cluster) error,
) (outage time.Duration, lost int, err error) {
	c, err := start(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	db := c.client()
	if way == guarded {
		if err := redismarks.Install(ctx, c.first.URL()); err != nil {
			return 0, 0, err
		}
		g, err := ways.StartGuard(ctx, ways.GuardOptions{Program: s.Guard, Redis: c.url()})
		if err != nil {
			return 0, 0, err
		}
		defer func() { err = errors.Join(err, g.Close()) }()
		db = driver.NewClient(guardOptions(g.Redis))
	}
	defer db.Close()
	w, err := write(ctx, db, func() error { return event(ctx, c) })
	if err != nil {
		return 0, 0, err
	}
	kept, err := c.kept(ctx)
	if err != nil {
		return 0, 0, err
	}
	return w.outage, w.missing(kept), nil
}
