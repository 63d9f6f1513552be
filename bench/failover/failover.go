// Package failover measures what a failover costs a leader that writes all the time: how long
// nothing is acknowledged, how many acknowledged writes are lost, and how many rows an older leader
// writes that goes on trying.
//
// The databases are those that people run: three nodes of Patroni, and two Redis servers that three
// Sentinels watch. All ways to reach Postgres write to one cluster at the same time.
package failover

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/ringfence/ringfence/bench/internal/program"
	"github.com/ringfence/ringfence/bench/internal/report"
)

// settings are the flags.
type settings struct{ report.Options }

// New returns the benchmark.
func New() program.Benchmark {
	return &settings{report.Options{Guard: report.DefaultGuard, Rounds: 3, Limit: time.Hour}}
}

// Measure implements program.Benchmark.
func (s *settings) Measure(ctx context.Context, progress io.Writer) (report.Result, error) {
	r := report.New("failover", s.Options)
	for _, measure := range []func(context.Context, *report.Report, io.Writer) error{
		s.postgres, s.redis,
	} {
		if err := measure(ctx, r, progress); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// rows are those of one event.
type rows struct {
	name                string
	outage, lost, stale *report.Row
}

func newRows(r *report.Report, name string) *rows {
	row := func(what, unit string) *report.Row {
		return r.Row(report.Row{Name: name + ": " + what, Unit: unit, Lower: true})
	}
	return &rows{
		name, row("nothing is acknowledged", "ms"), row("acknowledged and lost", "writes"),
		row("written by the older leader", "rows"),
	}
}

func (r *rows) add(way string, outage time.Duration, lost int) {
	r.outage.Add(way, float64(outage.Milliseconds()))
	r.lost.Add(way, float64(lost))
}

func (r *rows) say(progress io.Writer, round int) {
	fmt.Fprintf(progress, "%s, round %d\n", r.name, round+1)
}
