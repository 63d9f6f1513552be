package work

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/jobs"
)

// List prints the jobs of a group.
func (v *Invocation) List(ctx context.Context) int {
	ctx, cancel := v.patience(ctx)
	defer cancel()
	q, err := v.queue()
	if err != nil {
		return cli.Failed(ctx, v.Log, "list the jobs", err)
	}
	all := []jobs.Status{}
	err = q.List(ctx, func(s jobs.Status) error { all = append(all, s); return nil })
	if err != nil && len(all) == 0 {
		return cli.Failed(ctx, v.Log, "list the jobs", err)
	}
	if err != nil {
		v.Log.Warn("some jobs cannot be read", "error", err)
	}
	if v.Output == "json" {
		err = json.NewEncoder(v.Stdout).Encode(all)
	} else {
		err = v.table(all)
	}
	if err != nil {
		return cli.Failed(ctx, v.Log, "print", err)
	}
	return cli.Done
}

func (v *Invocation) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	why := fmt.Errorf("no answer of the coordinator within %s", v.Settings.Patience)
	return context.WithTimeoutCause(ctx, v.Settings.Patience, why)
}

func (v *Invocation) table(all []jobs.Status) error {
	t := tabwriter.NewWriter(v.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tKIND\tSTATE\tWORKER\tATTEMPT\tAGE\tNOTE")
	for _, s := range all {
		worker := "-"
		if s.WorkerName != "" {
			worker = cli.Printable(s.WorkerName)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", s.ID, cli.Printable(s.Kind), s.State, worker,
			s.Attempt, age(s.Submitted), note(s))
	}
	return t.Flush()
}

func age(since time.Time) string { return time.Since(since).Round(time.Second).String() }

// note is what matters about a job beside its state.
func note(s jobs.Status) string {
	var notes []string
	if left := time.Until(s.Due).Round(time.Second); s.State == jobs.Waiting && left > 0 {
		notes = append(notes, "in "+left.String())
	}
	if s.Every != "" {
		notes = append(notes, fmt.Sprintf("every %s, round %d", s.Every, s.Rounds+1))
	}
	if s.Error != "" {
		notes = append(notes, firstLine(s.Error))
	}
	return strings.Join(notes, "; ")
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

// Logs prints what a command has written: its last try that has ended.
func (v *Invocation) Logs(ctx context.Context, id jobs.ID) int {
	return v.with(ctx, "show what job "+string(id)+" has written", func(ctx context.Context, q *jobs.Queue) error {
		s, err := q.Get(ctx, id)
		if err != nil {
			return err
		}
		var r Result
		if s.Kind != CommandKind || len(s.Result) == 0 || json.Unmarshal(s.Result, &r) != nil {
			return fmt.Errorf("it is %s, and no command of it has ended", s.State)
		}
		fmt.Fprint(v.Stderr, r.Stderr)
		_, err = fmt.Fprint(v.Stdout, r.Stdout)
		return err
	})
}

// Cancel cancels a job.
func (v *Invocation) Cancel(ctx context.Context, id jobs.ID) int {
	return v.with(ctx, "cancel job "+string(id), func(ctx context.Context, q *jobs.Queue) error {
		return q.Cancel(ctx, id)
	})
}

// Retry makes a job that has failed or was cancelled wait again.
func (v *Invocation) Retry(ctx context.Context, id jobs.ID) int {
	return v.with(ctx, "retry job "+string(id), func(ctx context.Context, q *jobs.Queue) error {
		return q.Retry(ctx, id)
	})
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
		return cli.Failed(ctx, v.Log, doing, err)
	}
	return cli.Done
}
