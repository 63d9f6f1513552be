package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/jobs"
)

// Submit hands a job in and prints its ID. With wait it waits for the job's end, and returns the
// command's exit code.
func (v *Invocation) Submit(ctx context.Context, spec jobs.Spec, wait bool) int {
	q, err := v.queue()
	if err != nil {
		return cli.Failed(ctx, v.Log, "submit", err)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, v.Settings.Patience,
		fmt.Errorf("no answer of the coordinator within %s; the job may have been handed in: "+
			"leader jobs %s shows it, and --unique makes it safe to submit it again", v.Settings.Patience, v.Group))
	id, err := q.Submit(bounded, spec)
	cancel()
	if err != nil {
		return cli.Failed(ctx, v.Log, "submit", err)
	}
	if v.Output != "json" || !wait {
		v.printID(id)
	}
	if !wait {
		return cli.Done
	}
	end, err := v.follow(ctx, q, id)
	switch {
	case err != nil:
		return cli.Failed(ctx, v.Log, "wait for job "+string(id)+", which goes on", err)
	case v.Output == "json":
		err = json.NewEncoder(v.Stdout).Encode(end)
	}
	if err != nil {
		return cli.Failed(ctx, v.Log, "print", err)
	}
	return v.ended(end)
}

func (v *Invocation) printID(id jobs.ID) {
	if v.Output == "json" {
		_ = json.NewEncoder(v.Stdout).Encode(map[string]jobs.ID{"id": id})
		return
	}
	fmt.Fprintln(v.Stdout, id)
}

// follow reports a job's progress until its end.
func (v *Invocation) follow(ctx context.Context, q *jobs.Queue, id jobs.ID) (end jobs.Status, err error) {
	done := errors.New("the job has ended")
	began := time.Now()
	var last string
	err = q.Watch(ctx, id, func(s jobs.Status) error {
		if now := progress(s); now != last && v.Output != "json" {
			last = now
			fmt.Fprintf(v.Stderr, "%6.1fs  %s\n", time.Since(began).Seconds(), now)
		}
		if end = s; s.State.Finished() {
			return done
		}
		return nil
	})
	if errors.Is(err, done) {
		err = nil
	}
	return end, err
}

// progress says where a job is, in one line.
func progress(s jobs.Status) string {
	switch s.State {
	case jobs.Waiting:
		text := "waiting"
		if left := time.Until(s.Due).Round(time.Second); left > 0 {
			text += fmt.Sprintf(" until %s", s.Due.Local().Format(time.DateTime))
		}
		if s.Error != "" {
			text += ": " + firstLine(s.Error)
		}
		return text
	case jobs.Assigned:
		return "assigned to " + cli.Printable(s.WorkerName)
	case jobs.Running:
		return fmt.Sprintf("running at %s, attempt %d, token %s", cli.Printable(s.WorkerName), s.Attempt, s.Token)
	case jobs.Failed:
		return "failed: " + firstLine(s.Error)
	}
	return string(s.State)
}

// ended prints the output of a command that has ended, and returns its exit code.
func (v *Invocation) ended(s jobs.Status) int {
	var r Result
	if s.Kind != CommandKind && s.Kind != TaskKind || json.Unmarshal(s.Result, &r) != nil {
		r = Result{}
	}
	if v.Output != "json" {
		fmt.Fprint(v.Stderr, r.Stderr)
		fmt.Fprint(v.Stdout, r.Stdout)
	}
	switch {
	case s.State == jobs.Done:
		return cli.Done
	case s.State == jobs.Failed && r.Code != 0:
		return r.Code
	}
	return cli.Error
}
