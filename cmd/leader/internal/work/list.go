package work

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
)

// List prints the selected jobs of a group, without results. A table begins with those that have
// failed.
func (v *Invocation) List(ctx context.Context, selected queueview.Selection) int {
	ctx, cancel := v.patience(ctx)
	defer cancel()
	q, err := v.queue()
	if err != nil {
		return cli.Failed(ctx, v.Log, "list the jobs", err)
	}
	all, err := pages(ctx, q, selected)
	if err != nil && len(all) == 0 {
		return cli.Failed(ctx, v.Log, "list the jobs", err)
	}
	if err != nil {
		v.Log.Warn("some jobs cannot be read", "error", err)
	}
	switch {
	case v.Output == "json":
		err = json.NewEncoder(v.Stdout).Encode(all)
	case len(all) == 0 && selected.Kind == "" && selected.Text == "" && selected.State != "":
		fmt.Fprintf(v.Stderr, "leader: no job of the group %s is %s\n", v.Group, selected.State)
	case len(all) == 0 && selected != (queueview.Selection{}):
		fmt.Fprintf(v.Stderr, "leader: the group %s has no such job\n", v.Group)
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
func pages(
	ctx context.Context, q *queueview.View, s queueview.Selection,
) (all []job.Status, err error) {
	all = []job.Status{}
	for more := true; more; {
		var page []job.Status
		page, more, err = q.Page(ctx, s)
		if all = append(all, page...); more {
			s.After = page[len(page)-1].ID
		}
	}
	return all, err
}

// order is that of the states in a table.
var order = []job.State{job.Failed, job.Running, job.Assigned, job.Waiting, job.Cancelled,
	job.Done}

func (v *Invocation) table(ctx context.Context, q *queueview.View, all []job.Status) error {
	slices.SortStableFunc(all, func(a, b job.Status) int {
		return cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State))
	})
	workers, err := q.Workers(ctx)
	known := err == nil
	t := tabwriter.NewWriter(v.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tJOB\tSTATE\tWORKER\tATTEMPT\tAGE\tNOTE")
	for _, s := range all {
		worker, notes := "-", note(s)
		if s.WorkerName != "" {
			worker = cli.Printable(s.WorkerName)
		}
		if why := queueview.WhyWaiting(s, workers, nil); known && why != "" {
			notes = append([]string{why}, notes...)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", s.ID, firstLine(Name(s), 48), s.State, worker,
			s.Attempt, age(s.Submitted), firstLine(strings.Join(notes, "; "), 100))
	}
	return t.Flush()
}

// note is what matters about a job beside its state.
func note(s job.Status) (notes []string) {
	if left := time.Until(s.Due).Round(time.Second); s.State == job.Waiting && left > 0 && !s.Paused {
		notes = append(notes, "in "+left.String())
	}
	if s.Every != "" {
		notes = append(notes, fmt.Sprintf("every %s, round %d", s.Every, s.Rounds+1))
	}
	if s.Paused && s.State != job.Waiting {
		notes = append(notes, "it is paused after this attempt")
	}
	if s.Error != "" {
		notes = append(notes, firstLine(s.Error, 100))
	}
	return notes
}

// firstLine shortens a text to one line of at most so many characters that does not confuse a
// terminal.
func firstLine(text string, most int) string {
	line, _, _ := strings.Cut(text, "\n")
	if r := []rune(line); len(r) > most {
		line = string(r[:most-1]) + "…"
	}
	return harmless(line)
}

// harmless replaces what would confuse a terminal.
func harmless(line string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r != ' ' && !strconv.IsPrint(r):
			return '?'
		}
		return r
	}, line)
}
