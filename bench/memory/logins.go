package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/bench/internal/ways"
)

// loginCounts are how many clients open sessions at once.
var loginCounts = []int{1, 16}

// measureLogins measures how many sessions can be opened and closed per second.
func measureLogins(ctx context.Context, s *settings, r *report.Report, progress io.Writer) error {
	for _, d := range databases {
		rows := map[int]*report.Row{}
		for _, n := range loginCounts {
			name := fmt.Sprintf("logins %s c=%d", d.name, n)
			if s.Wants(name) {
				rows[n] = r.Row(report.Row{Name: name, Unit: "1/s"})
			}
		}
		if len(rows) == 0 {
			continue
		}
		db, err := d.start(ctx, s, 300, true, progress)
		if err != nil {
			return err
		}
		err = db.logins(ctx, s, rows, progress)
		if err = errors.Join(err, db.stage.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (d *database) logins(
	ctx context.Context, s *settings, rows map[int]*report.Row, progress io.Writer,
) error {
	for round := range s.Rounds {
		for _, n := range loginCounts {
			if rows[n] == nil {
				continue
			}
			fmt.Fprintf(progress, "round %d of %d: %s\n", round+1, s.Rounds, rows[n].Name)
			for _, w := range rounds.Turn(d.ways, round) {
				before, _ := w.CPU()
				count, took, err := d.cycle(ctx, w, n, func(start time.Time, _ int) bool {
					return time.Since(start) < s.Duration()
				})
				if err != nil {
					return fmt.Errorf("%s: %s: %w", rows[n].Name, w.Name, err)
				}
				rows[n].Add(w.Name, float64(count)/took.Seconds())
				if after, ok := w.CPU(); ok {
					rows[n].AddCPU(w.Name, (after-before).Seconds()*1e6/float64(count))
				}
			}
		}
	}
	return nil
}

// cycle lets n clients open and close sessions as long as more returns true for the number that one
// client has opened. It returns how many sessions there were.
func (d *database) cycle(
	ctx context.Context, w *ways.Way, n int, more func(start time.Time, opened int) bool,
) (count int, took time.Duration, err error) {
	g, ctx := errgroup.WithContext(ctx)
	counts := make([]int, n)
	start := time.Now()
	for i := range counts {
		g.Go(func() error {
			for more(start, counts[i]) && ctx.Err() == nil {
				session, err := d.open(ctx, w, ways.Resource, 1)
				if err != nil {
					return err
				}
				_ = session.Close()
				counts[i]++
			}
			return ctx.Err()
		})
	}
	err = g.Wait()
	for _, c := range counts {
		count += c
	}
	return count, time.Since(start), err
}
