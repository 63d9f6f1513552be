package proxies

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/bench/internal/ways"
)

// latencyTrials returns a trial for the latency of one client, if the flags choose its rows.
func latencyTrials(
	r *report.Report, s *settings, name string, bar report.Bar,
	dial func(ctx context.Context, w *ways.Way) (*pingPong, error),
) []trial {
	row := func(quantile string) *report.Row {
		return r.Row(report.Row{Name: name + " " + quantile, Unit: "µs", Lower: true, Bar: &bar})
	}
	if !s.Wants(name+" p50") && !s.Wants(name+" p99") {
		return nil
	}
	l := &latency{p50: row("p50"), p99: row("p99"), dial: dial, time: s.Duration()}
	return []trial{{name: name, round: l.round}}
}

// latency measures the round trips of one client. The ways take turns at each round trip, so that a
// disturbance of the machine affects all equally.
type latency struct {
	p50, p99 *report.Row
	dial     func(ctx context.Context, w *ways.Way) (*pingPong, error)
	time     time.Duration // for each way
}

// enough round trips for a p99; a short run has fewer.
const expectedTrips = 1 << 16

func (l *latency) round(ctx context.Context, turn []*ways.Way) (err error) {
	clients := make([]*pingPong, 0, len(turn))
	defer func() {
		for _, c := range clients {
			err = errors.Join(err, c.close())
		}
	}()
	for _, w := range turn {
		c, err := l.dial(ctx, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		clients = append(clients, c)
	}
	before := make([]time.Duration, len(turn))
	for i, w := range turn {
		before[i], _ = w.CPU()
	}
	times, err := l.trips(ctx, clients)
	if err != nil {
		return err
	}
	for i, w := range turn {
		l.add(w, before[i], times[i])
	}
	return nil
}

// trips makes round trips in turns, and returns the times of each client.
func (l *latency) trips(ctx context.Context, clients []*pingPong) ([][]time.Duration, error) {
	times := make([][]time.Duration, len(clients))
	for i := range times {
		times[i] = make([]time.Duration, 0, expectedTrips)
	}
	end := time.Now().Add(l.time * time.Duration(len(clients)))
	for start := time.Now(); start.Before(end) && ctx.Err() == nil; {
		for i, c := range clients {
			if err := c.trip(); err != nil {
				return nil, err
			}
			now := time.Now()
			times[i] = append(times[i], now.Sub(start))
			start = now
		}
	}
	return times, ctx.Err()
}

func (l *latency) add(w *ways.Way, before time.Duration, times []time.Duration) {
	after, ok := w.CPU()
	operations := float64(len(times))
	slices.Sort(times)
	l.p50.Add(w.Name, microseconds(rounds.Percentile(times, 0.50)))
	l.p99.Add(w.Name, microseconds(rounds.Percentile(times, 0.99)))
	if ok {
		l.p50.AddCPU(w.Name, perOperation(after-before, operations))
	}
}

func microseconds(d time.Duration) float64 { return d.Seconds() * 1e6 }
