package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/ways"
)

// idleBar is the most that an idle session may cost the guard, in KiB (DESIGN.md, section 7).
const idleBar = 20

// measureIdle holds idle sessions, each time through a fresh guard.
func measureIdle(ctx context.Context, s *settings, r *report.Report, progress io.Writer) error {
	most := slices.Max(s.sessions)
	for _, d := range databases {
		var chosen []int
		for _, n := range s.sessions {
			if wantsAny(s.Options, idleNames(d.name, n)...) {
				chosen = append(chosen, n)
			}
		}
		if len(chosen) == 0 {
			continue
		}
		files := allowFiles(3 * most)
		db, err := d.start(ctx, s, most, false, progress)
		if err != nil {
			return err
		}
		for _, n := range chosen {
			// A guard needs two files for each session, and some for itself.
			possible := min(n, (files-200)/2)
			if possible < n {
				r.Note("idle %s n=%d: only %d sessions, since a process may open %d files.", d.name, n,
					possible, files)
			}
			fmt.Fprintf(progress, "%s: %d idle sessions\n", d.name, possible)
			if err := db.idle(ctx, r, idleNames(d.name, n), possible, progress); err != nil {
				return errors.Join(fmt.Errorf("idle %s n=%d: %w", d.name, n, err), db.stage.Close())
			}
		}
		if err := db.stage.Close(); err != nil {
			return err
		}
	}
	return nil
}

func idleNames(database string, n int) []string {
	name := fmt.Sprintf("idle %s n=%d", database, n)
	return []string{name, name + " live", name + " rss"}
}

// idle measures the memory for n sessions. The names are those of the rows.
func (d *database) idle(
	ctx context.Context, r *report.Report, names []string, n int, progress io.Writer,
) error {
	g, err := d.newGuard(ctx, map[string]string{
		"GUARD_MAX_CONNECTIONS": fmt.Sprint(n + spare), "GUARD_REDIS_IDLE_TIMEOUT": "2h",
	})
	if err != nil {
		return err
	}
	defer g.Close()
	// what the guard sets up once is no session's
	first, err := d.open(ctx, d.through(g), ways.Resource, 1)
	if err != nil {
		return err
	}
	defer first.Close()
	before, err := g.MemoryAtRest(ctx)
	if err != nil {
		return err
	}
	open, err := d.openMany(ctx, d.through(g), n, progress)
	defer closeAll(open)
	if err != nil {
		return err
	}
	after, err := g.MemoryAtRest(ctx)
	if err != nil {
		return err
	}
	if len(open) < n {
		r.Note("%s: only %d sessions fit into the machine's memory.", names[0], len(open))
	}
	each := func(bytes int64) float64 { return float64(bytes) / float64(len(open)) / 1024 }
	r.Row(report.Row{Name: names[0], Unit: "KiB/session", Lower: true,
		Bar: &report.Bar{Way: ways.Guard, Limit: idleBar}}).
		Add(ways.Guard, each(after.Resident-before.Resident))
	r.Row(report.Row{Name: names[1], Unit: "KiB/session", Lower: true}).
		Add(ways.Guard, each(after.Live-before.Live))
	r.Row(report.Row{Name: names[2], Unit: "MiB", Lower: true}).
		Add(ways.Guard, float64(after.Resident)/(1<<20))
	return nil
}

// batch is how many sessions are opened between two looks at the machine's memory.
const batch = 500

// openMany opens sessions, several at a time. It stops early when the machine has little memory
// left, since each session of Postgres is a process.
func (d *database) openMany(
	ctx context.Context, w *ways.Way, n int, progress io.Writer,
) (open []io.Closer, err error) {
	for len(open) < n && enoughMemory() {
		some := make([]io.Closer, min(batch, n-len(open)))
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(16)
		for i := range some {
			g.Go(func() (err error) {
				some[i], err = d.open(gctx, w, ways.Resource, 1)
				return err
			})
		}
		err = g.Wait()
		for _, s := range some {
			if s != nil {
				open = append(open, s)
			}
		}
		if err != nil {
			return open, err
		}
		fmt.Fprintf(progress, "%s: %d sessions\n", d.name, len(open))
	}
	return open, nil
}

func closeAll(open []io.Closer) {
	var g errgroup.Group
	g.SetLimit(16)
	for _, s := range open {
		g.Go(s.Close)
	}
	_ = g.Wait() // the guard may have gone first
}
