package work

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
	"github.com/ringfence/ringfence/jobs/schedule"
)

// Show prints one job: as JSON with its payload and result, else what is known of it and a line for
// each attempt.
func (v *Invocation) Show(ctx context.Context, id job.ID) int {
	return v.with(ctx, "show job "+string(id), func(ctx context.Context, q *queueview.View) error {
		s, err := q.Get(ctx, id)
		if err != nil {
			return err
		}
		spec, err := q.Spec(ctx, id)
		if err != nil {
			return err
		}
		ahead, err := q.Calendar(ctx, s)
		if err != nil {
			return err
		}
		if v.Output == "json" {
			return json.NewEncoder(v.Stdout).Encode(struct {
				job.Status
				Spec     job.Spec           `json:"spec"`
				Calendar *schedule.Calendar `json:"calendar,omitempty"`
			}{s, spec, ahead})
		}
		workers, err := q.Workers(ctx)
		if err != nil {
			return err
		}
		facts(v.Stdout, s, spec, ahead, queueview.WhyWaiting(s, workers, nil))
		return attempts(v.Stdout, s)
	})
}

// facts prints what is known of a job, one fact in a line.
func facts(w io.Writer, s job.Status, spec job.Spec, ahead *schedule.Calendar, why string) {
	fact := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-10s %s\n", name, harmless(text))
		}
	}
	state := progress(s)
	if why != "" {
		state += ": " + why
	}
	fact("job", Name(s))
	fact("state", state)
	fact("resource", string(s.Resource))
	fact("labels", strings.Join(s.Labels, ", "))
	if s.Every != "" {
		fact("every", fmt.Sprintf("%s, round %d", s.Every, s.Rounds+1))
	}
	if ahead != nil {
		fact("rounds", nextRounds(ahead))
		for _, c := range ahead.ClockChanges {
			fact("clocks", c.Text)
		}
	}
	if spec.Retries > 0 {
		fact("retries", fmt.Sprintf("%d, and %d failures in this round", spec.Retries, s.Failures))
	}
	if spec.Timeout > 0 {
		fact("timeout", time.Duration(spec.Timeout).String())
	}
	fact("unique", s.Unique)
	fact("submitted", s.Submitted.Local().Format(time.DateTime))
	for line := range strings.Lines(s.Error) {
		fact("error", strings.TrimRight(line, "\n"))
	}
}

// attempts prints the history of a job.
func attempts(w io.Writer, s job.Status) error {
	if len(s.History) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ATTEMPT\tROUND\tWORKER\tTOKEN\tBEGAN\tTOOK\tEND\tNOTE")
	for _, a := range s.History {
		round, token, began, took := "-", "-", "-", "-"
		if a.Round > 0 {
			round = fmt.Sprint(a.Round)
		}
		if !a.Started.IsZero() {
			token, began = a.Token.String(), a.Started.Local().Format(time.DateTime)
			took = a.Ended.Sub(a.Started).Round(time.Millisecond).String()
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Attempt, round,
			cli.Printable(cmp.Or(a.Worker, "-")),
			token, began, took, a.Outcome, firstLine(a.Error, 100))
	}
	return t.Flush()
}
