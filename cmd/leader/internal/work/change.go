package work

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
)

// Cancel cancels a job, and prints what it is then.
func (v *Invocation) Cancel(ctx context.Context, id job.ID) int {
	return v.with(ctx, "cancel job "+string(id), func(ctx context.Context, q *queueview.View) error {
		if err := q.Cancel(ctx, id); err != nil {
			return err
		}
		return v.printNow(ctx, q, id, func(s job.Status) string {
			if s.State.Finished() {
				return string(s.State)
			}
			return progress(s) + "; it is told to end"
		})
	})
}

// Retry makes a job that has failed or was cancelled wait again, and prints what it is then.
func (v *Invocation) Retry(ctx context.Context, id job.ID) int {
	return v.change(ctx, "retry job "+string(id), id, (*queueview.View).Retry)
}

// RunNow has a job run that waits for its time.
func (v *Invocation) RunNow(ctx context.Context, id job.ID) int {
	return v.change(ctx, "run job "+string(id)+" now", id, (*queueview.View).RunNow)
}

// Pause keeps a job from being assigned.
func (v *Invocation) Pause(ctx context.Context, id job.ID) int {
	return v.change(ctx, "pause job "+string(id), id, (*queueview.View).Pause)
}

// Resume ends a pause.
func (v *Invocation) Resume(ctx context.Context, id job.ID) int {
	return v.change(ctx, "resume job "+string(id), id, (*queueview.View).Resume)
}

// change changes a job, and prints what it is then.
func (v *Invocation) change(
	ctx context.Context, doing string, id job.ID,
	step func(*queueview.View, context.Context, job.ID) error,
) int {
	return v.with(ctx, doing, func(ctx context.Context, q *queueview.View) error {
		if err := step(q, ctx, id); err != nil {
			return err
		}
		return v.printNow(ctx, q, id, func(s job.Status) string {
			if s.Paused {
				return progress(s) + "; it is paused"
			}
			return progress(s)
		})
	})
}

// printNow prints the status of a job that was just changed.
func (v *Invocation) printNow(
	ctx context.Context, q *queueview.View, id job.ID, text func(job.Status) string,
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
