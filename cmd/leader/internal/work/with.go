package work

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
)

func (v *Invocation) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return coordinators.Patience(ctx, v.Settings.SessionTimeout)
}

// with calls a function with the group's jobs, and returns the exit code.
func (v *Invocation) with(
	ctx context.Context, doing string, call func(context.Context, *queueview.View) error,
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
	if errors.Is(err, job.ErrNotFound) {
		return fmt.Errorf("%w, or it was forgotten after its end (--keep): leader jobs %s lists those "+
			"that are there",
			err, v.Group)
	}
	return err
}
