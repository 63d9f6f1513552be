package memory

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ringfence/ringfence/bench/internal/report"
	"github.com/ringfence/ringfence/bench/internal/rounds"
	"github.com/ringfence/ringfence/bench/internal/ways"
)

// measureMarks compares a guard without other marks with one that has opened a session for each of
// many resources: the time of an admission, memory, and `guard status`.
func measureMarks(ctx context.Context, s *settings, r *report.Report, progress io.Writer) error {
	for _, d := range databases {
		if !wantsAny(s.Options, "marks "+d.name) {
			continue
		}
		db, err := d.start(ctx, s, 300, false, progress)
		if err != nil {
			return err
		}
		err = db.withAndWithoutMarks(ctx, s, r, progress)
		if err = errors.Join(err, db.stage.Close()); err != nil {
			return fmt.Errorf("marks %s: %w", d.name, err)
		}
	}
	return nil
}

func (d *database) withAndWithoutMarks(
	ctx context.Context, s *settings, r *report.Report, progress io.Writer,
) error {
	if err := d.admissions(ctx, r, 0); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%s: raising %d marks\n", d.name, s.marks)
	if err := d.raise(ctx, s.marks); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%s: a session for each of %d resources\n", d.name, s.marks)
	start := time.Now()
	if err := d.visit(ctx, s.marks); err != nil {
		return err
	}
	r.Note("marks %s: a session for each of %d resources in %.0f s.", d.name, s.marks,
		time.Since(start).Seconds())
	if err := d.admissions(ctx, r, s.marks); err != nil {
		return err
	}
	return d.statuses(ctx, s, r)
}

// admissions is how many sessions are opened for a median.
const admissions = 300

// admissions measures logins under an existing mark, and the guard's memory, with n other marks.
func (d *database) admissions(ctx context.Context, r *report.Report, n int) error {
	row := r.Row(report.Row{
		Name: fmt.Sprintf("marks %s login n=%d", d.name, n), Unit: "ms", Lower: true,
	})
	var times []time.Duration
	for range admissions {
		start := time.Now()
		session, err := d.open(ctx, d.through(d.guard), ways.Resource, 1)
		if err != nil {
			return err
		}
		times = append(times, time.Since(start))
		_ = session.Close()
	}
	slices.Sort(times)
	row.Add(ways.Guard, rounds.Percentile(times, 0.5).Seconds()*1e3)
	m, err := d.guard.Memory(ctx)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("marks %s rss n=%d", d.name, n)
	r.Row(report.Row{Name: name, Unit: "MiB", Lower: true}).Add(ways.Guard, mebibytes(m.Resident))
	return nil
}

func resource(i int) string { return fmt.Sprintf("bench_%d", i) }

// raise makes the marks in Postgres in a few transactions: a raise through a guard waits for the
// disk.
func (d *database) raise(ctx context.Context, n int) error {
	if d.sql == nil {
		return nil // the sessions raise them
	}
	const each = 10000
	for first := 0; first < n; first += each {
		err := d.sql(ctx, fmt.Sprintf(`select count(r.step) from generate_series(%d, %d) i,
			lateral (select * from ringfence.look('bench_' || i)) l,
			lateral ringfence.raise('bench_' || i, 1, 'unverified', 'bench', '', l.basis) r`,
			first, min(first+each, n)-1))
		if err != nil {
			return err
		}
	}
	return nil
}

// visit opens a session for each resource, several at a time.
func (d *database) visit(ctx context.Context, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error {
			session, err := d.open(ctx, d.through(d.guard), resource(i), 1)
			if err != nil {
				return fmt.Errorf("%s: %w", resource(i), err)
			}
			_ = session.Close()
			return nil
		})
	}
	return g.Wait()
}

// statuses measures guard status.
func (d *database) statuses(ctx context.Context, s *settings, r *report.Report) error {
	for _, format := range []string{"table", "json"} {
		cmd := exec.CommandContext(ctx, s.Guard, "status", "-o", format)
		cmd.Env = []string{d.status}
		start := time.Now()
		out, err := cmd.Output()
		took := time.Since(start)
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			r.Note("marks %s: guard status -o %s failed after %.1f s: %s", d.name, format, took.Seconds(),
				failed.Stderr)
			continue
		}
		if err != nil {
			return err
		}
		r.Row(report.Row{
			Name: fmt.Sprintf("marks %s status -o %s n=%d", d.name, format, s.marks), Unit: "s", Lower: true,
		}).Add(ways.Guard, took.Seconds())
		r.Note("marks %s: guard status -o %s prints %.1f MB.", d.name, format, float64(len(out))/1e6)
	}
	return nil
}
