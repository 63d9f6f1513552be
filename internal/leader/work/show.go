package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ringfence/ringfence/internal/program/cli"
	"github.com/ringfence/ringfence/internal/program/coordinators"
	"github.com/ringfence/ringfence/jobs"
)

// List prints the jobs of a group, without results: those in a state, or all.
func (v *Invocation) List(ctx context.Context, state jobs.State) int {
	ctx, cancel := v.patience(ctx)
	defer cancel()
	q, err := v.queue()
	if err != nil {
		return cli.Failed(ctx, v.Log, "list the jobs", err)
	}
	all, err := pages(ctx, q, state)
	if err != nil && len(all) == 0 {
		return cli.Failed(ctx, v.Log, "list the jobs", err)
	}
	if err != nil {
		v.Log.Warn("some jobs cannot be read", "error", err)
	}
	switch {
	case v.Output == "json":
		err = json.NewEncoder(v.Stdout).Encode(all)
	case len(all) == 0 && state != "":
		fmt.Fprintf(v.Stderr, "leader: no job of the group %s is %s\n", v.Group, state)
	case len(all) == 0: // the group may be a typing error
		fmt.Fprintf(v.Stderr, "leader: the group %s has no jobs\n", v.Group)
	default:
		err = v.table(ctx, q, all)
	}
	if err != nil {
		return cli.Failed(ctx, v.Log, "print", err)
	}
	return cli.Done
}

// pages reads one page after the other.
func pages(ctx context.Context, q *jobs.Queue, state jobs.State) (all []jobs.Status, err error) {
	all = []jobs.Status{}
	for s, more := (jobs.Selection{State: state}), true; more; {
		var page []jobs.Status
		page, more, err = q.Page(ctx, s)
		if all = append(all, page...); more {
			s.After = page[len(page)-1].ID
		}
	}
	return all, err
}

func (v *Invocation) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return coordinators.Patience(ctx, v.Settings.SessionTimeout)
}

func (v *Invocation) table(ctx context.Context, q *jobs.Queue, all []jobs.Status) error {
	workers, err := q.Workers(ctx)
	known := err == nil
	t := tabwriter.NewWriter(v.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tKIND\tSTATE\tWORKER\tATTEMPT\tAGE\tNOTE")
	for _, s := range all {
		worker, notes := "-", note(s)
		if s.WorkerName != "" {
			worker = cli.Printable(s.WorkerName)
		}
		if why := noWorker(workers, s); known && s.State == jobs.Waiting && why != "" {
			notes = append([]string{why}, notes...)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", s.ID, cli.Printable(s.Kind), s.State, worker,
			s.Attempt, age(s.Submitted), strings.Join(notes, "; "))
	}
	return t.Flush()
}

// Workers prints the workers of a group.
func (v *Invocation) Workers(ctx context.Context) int {
	return v.with(ctx, "list the workers", func(ctx context.Context, q *jobs.Queue) error {
		o, err := q.Overview(ctx, 0)
		switch {
		case err != nil:
			return err
		case v.Output == "json":
			return json.NewEncoder(v.Stdout).Encode(append([]jobs.WorkerStatus{}, o.Workers...))
		case len(o.Workers) == 0:
			fmt.Fprintf(v.Stderr, "leader: the group %s has no workers\n", v.Group)
			return nil
		}
		t := tabwriter.NewWriter(v.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "WORKER\tJOBS\tLABELS\tKINDS\tID\tNOTE")
		for _, w := range o.Workers {
			notes := ""
			if w.Assigns {
				notes = "assigns jobs"
			}
			if w.Stopping {
				notes = "stops"
			}
			fmt.Fprintf(t, "%s\t%d of %d\t%s\t%s\t%s\t%s\n", cli.Printable(w.Name), w.Jobs, w.Capacity,
				list(w.Labels), list(w.Kinds), w.ID, notes)
		}
		return t.Flush()
	})
}

// list joins names that other processes have chosen.
func list(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	var all []string
	for _, name := range names {
		all = append(all, cli.Printable(name))
	}
	return strings.Join(all, ",")
}

func age(since time.Time) string { return time.Since(since).Round(time.Second).String() }

// note is what matters about a job beside its state.
func note(s jobs.Status) (notes []string) {
	if left := time.Until(s.Due).Round(time.Second); s.State == jobs.Waiting && left > 0 {
		notes = append(notes, "in "+left.String())
	}
	if s.Every != "" {
		notes = append(notes, fmt.Sprintf("every %s, round %d", s.Every, s.Rounds+1))
	}
	if s.Error != "" {
		notes = append(notes, firstLine(s.Error))
	}
	return notes
}

// firstLine shortens a text to one line that does not confuse a terminal.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	if r := []rune(line); len(r) > 100 {
		line = string(r[:99]) + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, line)
}

// Show prints one job.
func (v *Invocation) Show(ctx context.Context, id jobs.ID) int {
	return v.with(ctx, "show job "+string(id), func(ctx context.Context, q *jobs.Queue) error {
		s, err := q.Get(ctx, id)
		if err != nil {
			return err
		}
		spec, err := q.Spec(ctx, id)
		if err != nil {
			return err
		}
		shown := struct {
			jobs.Status
			Spec jobs.Spec `json:"spec"`
		}{s, spec}
		text, err := json.Marshal(shown)
		if err == nil && v.Output != "json" {
			var b bytes.Buffer
			err = json.Indent(&b, text, "", "  ")
			text = b.Bytes()
		}
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(v.Stdout, "%s\n", text)
		return err
	})
}

// Logs prints what a command, or those of a task, have written in the last try that has ended.
func (v *Invocation) Logs(ctx context.Context, id jobs.ID) int {
	return v.with(ctx, "show what job "+string(id)+" has written", func(ctx context.Context, q *jobs.Queue) error {
		s, err := q.Get(ctx, id)
		if err != nil {
			return err
		}
		r, ended := resultOf(s)
		switch {
		case kinds[s.Kind] == nil:
			return fmt.Errorf("nothing keeps what a job of kind %s writes: leader jobs %s show %s prints its result",
				cli.Printable(s.Kind), v.Group, id)
		case !ended:
			return fmt.Errorf("it is %s, and no try of it has ended", s.State)
		}
		fmt.Fprint(v.Stderr, r.Stderr)
		_, err = fmt.Fprint(v.Stdout, r.Stdout)
		return err
	})
}

// Cancel cancels a job, and prints what it is then.
func (v *Invocation) Cancel(ctx context.Context, id jobs.ID) int {
	return v.with(ctx, "cancel job "+string(id), func(ctx context.Context, q *jobs.Queue) error {
		if err := q.Cancel(ctx, id); err != nil {
			return err
		}
		return v.printNow(ctx, q, id, func(s jobs.Status) string {
			if s.State.Finished() {
				return string(s.State)
			}
			return progress(s) + "; it is told to end"
		})
	})
}

// Retry makes a job that has failed or was cancelled wait again, and prints what it is then.
func (v *Invocation) Retry(ctx context.Context, id jobs.ID) int {
	return v.with(ctx, "retry job "+string(id), func(ctx context.Context, q *jobs.Queue) error {
		if err := q.Retry(ctx, id); err != nil {
			return err
		}
		return v.printNow(ctx, q, id, func(s jobs.Status) string { return string(s.State) })
	})
}

// printNow prints the status of a job that was just changed.
func (v *Invocation) printNow(
	ctx context.Context, q *jobs.Queue, id jobs.ID, text func(jobs.Status) string,
) error {
	s, err := q.Get(ctx, id)
	switch {
	case err != nil:
		return fmt.Errorf("it was done, but the status cannot be read: %w", err)
	case v.Output == "json":
		return json.NewEncoder(v.Stdout).Encode(s)
	}
	_, err = fmt.Fprintln(v.Stdout, text(s))
	return err
}

// with calls a function with the group's jobs, and returns the exit code.
func (v *Invocation) with(
	ctx context.Context, doing string, call func(context.Context, *jobs.Queue) error,
) int {
	ctx, cancel := v.patience(ctx)
	defer cancel()
	q, err := v.queue()
	if err == nil {
		err = call(ctx, q)
	}
	if err != nil {
		return cli.Failed(ctx, v.Log, doing, v.explained(err))
	}
	return cli.Done
}

// explained says what to do about an error.
func (v *Invocation) explained(err error) error {
	if errors.Is(err, jobs.ErrUnknownJob) {
		return fmt.Errorf("%w, or it was forgotten after its end (--keep): leader jobs %s lists those that are there",
			err, v.Group)
	}
	return err
}
