package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/ways"
)

// growthBar is the most that the guard's live memory may grow with each connection, in bytes. A
// session that is not freed needs more.
const growthBar = 32

// measureGrowth compares the guard's memory before and after many connections have come and gone.
func measureGrowth(ctx context.Context, s *settings, r *report.Report, progress io.Writer) error {
	for _, d := range databases {
		name := "growth " + d.name
		if !wantsAny(s.Options, name+" live", name+" rss") {
			continue
		}
		fmt.Fprintf(progress, "%s: %d connections\n", name, s.cycles)
		db, err := d.start(ctx, s, 300, false, progress)
		if err != nil {
			return err
		}
		if err = errors.Join(db.growth(ctx, s, r, name), db.stage.Close()); err != nil {
			return err
		}
	}
	return nil
}

// growth warms the guard up with a tenth of the connections.
func (d *database) growth(ctx context.Context, s *settings, r *report.Report, name string) error {
	const clients = 16
	cycles := func(n int) error {
		_, _, err := d.cycle(ctx, d.through(d.guard), clients, func(_ time.Time, opened int) bool {
			return opened < n/clients
		})
		return err
	}
	if err := cycles(s.cycles / 10); err != nil {
		return err
	}
	before, err := d.guard.Memory(ctx)
	if err != nil {
		return err
	}
	if err := cycles(s.cycles); err != nil {
		return err
	}
	after, err := d.guard.Memory(ctx)
	if err != nil {
		return err
	}
	each := func(bytes int64) float64 { return float64(bytes) / float64(s.cycles) }
	r.Row(report.Row{Name: name + " live", Unit: "bytes/connection", Lower: true,
		Bar: &report.Bar{
			Way: ways.Guard, Limit: growthBar,
		}}).Add(ways.Guard, each(after.Live-before.Live))
	r.Row(report.Row{Name: name + " rss", Unit: "bytes/connection", Lower: true}).
		Add(ways.Guard, each(after.Resident-before.Resident))
	r.Note("%s: %d connections; live memory %.1f MiB before and %.1f MiB after, resident %.1f and "+
		"%.1f MiB, goroutines %d and %d.", name, s.cycles, mebibytes(before.Live), mebibytes(after.Live),
		mebibytes(before.Resident), mebibytes(after.Resident), before.Goroutines, after.Goroutines)
	return nil
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
