package work

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ringfence/ringfence/jobs"
)

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
	return v.change(ctx, "retry job "+string(id), id, (*jobs.Queue).Retry)
}

// RunNow has a job run that waits for its time.
func (v *Invocation) RunNow(ctx context.Context, id jobs.ID) int {
	return v.change(ctx, "run job "+string(id)+" now", id, (*jobs.Queue).RunNow)
}

// Pause keeps a job from being assigned.
func (v *Invocation) Pause(ctx context.Context, id jobs.ID) int {
	return v.change(ctx, "pause job "+string(id), id, (*jobs.Queue).Pause)
}

// Resume ends a pause.
func (v *Invocation) Resume(ctx context.Context, id jobs.ID) int {
	return v.change(ctx, "resume job "+string(id), id, (*jobs.Queue).Resume)
}

// change changes a job, and prints what it is then.
func (v *Invocation) change(
	ctx context.Context, doing string, id jobs.ID,
	step func(*jobs.Queue, context.Context, jobs.ID) error,
) int {
	return v.with(ctx, doing, func(ctx context.Context, q *jobs.Queue) error {
		if err := step(q, ctx, id); err != nil {
			return err
		}
		return v.printNow(ctx, q, id, func(s jobs.Status) string {
			if s.Paused {
				return progress(s) + "; it is paused"
			}
			return progress(s)
		})
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
