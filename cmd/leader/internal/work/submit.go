package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
	"github.com/ringfence/ringfence/jobs/schedule"
)

// Submit hands a job in and prints its ID. With wait it waits for the job's end, and returns the
// command's exit code.
func (v *Invocation) Submit(ctx context.Context, spec job.Spec, wait bool) int {
	q, err := v.queue()
	if err != nil {
		return cli.Failed(ctx, v.Log, "submit", err)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, v.Settings.SessionTimeout,
		fmt.Errorf("no answer of the coordinator within %s; the job may have been handed in: "+
			"leader jobs %s shows it, and --unique makes it safe to submit it again",
			v.Settings.SessionTimeout, v.Group))
	defer cancel()
	id, err := q.Submit(bounded, Titled(spec))
	if err != nil {
		return cli.Failed(ctx, v.Log, "submit", err)
	}
	if v.Output != "json" || !wait {
		v.printID(id)
	}
	if spec.Every != "" {
		v.announce(bounded, q, id)
	}
	cancel()
	if !wait {
		return cli.Done
	}
	end, err := v.follow(ctx, q, id, spec)
	switch {
	case err != nil:
		if context.Cause(ctx) != nil {
			v.Log.Warn("the job goes on", "show it with", fmt.Sprintf("leader jobs %s show %s", v.Group, id))
		}
		return cli.Failed(ctx, v.Log, "wait for job "+string(id)+", which goes on", v.explained(err))
	case v.Output == "json":
		err = json.NewEncoder(v.Stdout).Encode(end)
	}
	if err != nil {
		return cli.Failed(ctx, v.Log, "print", err)
	}
	return v.ended(ctx, end)
}

// announce says when a job that was handed in is due, and what changes of the clocks do to it.
func (v *Invocation) announce(ctx context.Context, q *queueview.View, id job.ID) {
	var ahead *schedule.Calendar
	s, err := q.Get(ctx, id)
	if err == nil {
		ahead, err = q.Calendar(ctx, s)
	}
	switch {
	case err != nil:
		v.Log.Warn("the job was handed in, but its next rounds cannot be read", "error", err)
	case ahead != nil:
		v.Log.Info("next rounds", "at", nextRounds(ahead))
		for _, c := range ahead.ClockChanges {
			v.Log.Warn(c.Text)
		}
	}
}

// nextRounds are those ahead, by the clocks of the schedule's zone.
func nextRounds(ahead *schedule.Calendar) string {
	var all []string
	for _, at := range ahead.Rounds {
		all = append(all, at.Format("2006-01-02 15:04:05 MST"))
	}
	return strings.Join(all, ", ")
}

func (v *Invocation) printID(id job.ID) {
	if v.Output == "json" {
		_ = json.NewEncoder(v.Stdout).Encode(map[string]job.ID{"id": id})
		return
	}
	fmt.Fprintln(v.Stdout, id)
}

// follow reports a job's progress until its end.
func (v *Invocation) follow(
	ctx context.Context, q *queueview.View, id job.ID, spec job.Spec,
) (end job.Status, err error) {
	if v.Output == "json" {
		return q.Wait(ctx, id)
	}
	done := errors.New("the job has ended")
	l := newLine(v.Stderr, v.Env, time.Duration(spec.Timeout))
	ticking, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { l.tick(ticking.Done()) })
	if steps := kinds[spec.Kind].follow; steps != nil && l.terminal != nil {
		// without it the bar shows no steps
		background.Go(func() { _ = steps(v, ticking, spec, l.step) })
	}
	err = q.Watch(ctx, id, func(s job.Status) error {
		l.show(s, v.whyWaiting(ctx, q, s))
		if end = s; s.State.Finished() {
			return done
		}
		return nil
	})
	stop()
	background.Wait()
	l.end()
	if errors.Is(err, done) {
		err = nil
	}
	return end, err
}

// whyWaiting says why a job waits, such as that no worker runs it. It asks once for each status.
func (v *Invocation) whyWaiting(ctx context.Context, q *queueview.View, s job.Status) string {
	if s.State != job.Waiting || time.Until(s.Due) > 0 {
		return ""
	}
	ctx, cancel := v.patience(ctx)
	defer cancel()
	workers, err := q.Workers(ctx)
	if err != nil {
		return ""
	}
	return queueview.WhyWaiting(s, workers, nil)
}

// progress says where a job is, in one line.
func progress(s job.Status) string {
	switch s.State {
	case job.Waiting:
		text := "waiting"
		if left := time.Until(s.Due).Round(time.Second); left > 0 && !s.Paused {
			text += fmt.Sprintf(" until %s", s.Due.Local().Format(time.DateTime))
		}
		if s.Error != "" {
			text += ": " + firstLine(s.Error, 100)
		}
		return text
	case job.Assigned:
		return "assigned to " + cli.Printable(s.WorkerName)
	case job.Running:
		return fmt.Sprintf("running at %s, attempt %d, token %s", cli.Printable(s.WorkerName), s.Attempt,
			s.Token)
	case job.Failed:
		return "failed: " + firstLine(s.Error, 100)
	}
	return string(s.State)
}

// ended prints the output of a command that has ended, and returns its exit code.
func (v *Invocation) ended(ctx context.Context, s job.Status) int {
	r, _ := resultOf(s)
	if v.Output != "json" {
		if err := v.write(ctx, r); err != nil {
			return cli.Failed(ctx, v.Log, "print the output of the job, which has ended: "+string(s.State),
				err)
		}
	}
	switch {
	case s.State == job.Done:
		return cli.Done
	case s.State == job.Failed && r.Code != 0:
		v.Passed = true
		return r.Code
	}
	return cli.Error
}
