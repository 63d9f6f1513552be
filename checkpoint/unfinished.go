package checkpoint

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/checkpoint/unfinished"
)

// errUnfinished stops a task if nobody knows whether a step has ended.
var errUnfinished = errors.New("an earlier leader began this step and did not see it end: " +
	"it may have run, in part, or not at all. Find out with its key, then resume (it is run again)")

// start records the start of a step if the step needs that, and decides about a step that is
// already recorded as started. It returns true if the step has ended and must not run.
func (r *termRunner[S]) start(ctx context.Context, step Step[S]) (ran bool, err error) {
	if !step.recordsStart() {
		return false, nil
	}
	if r.cp.Status != Started {
		begun := r.cp
		begun.Status = Started
		return false, r.publish(ctx, begun)
	}
	s, err := r.state()
	if err != nil {
		return false, err
	}
	decision := step.Unfinished
	if step.Ask != nil {
		s, err = protect(func() (asked S, err error) {
			decision, asked, err = step.Ask(ctx, s, r.cp.Key())
			return asked, err
		})
		if r.over(ctx) {
			return false, context.Cause(ctx)
		}
		if err != nil {
			return false, r.halt(ctx, step, 0, errors.Join(errUnfinished, err))
		}
	}
	switch decision {
	case unfinished.Finished:
		err := r.finish(ctx, s)
		if own, ok := errors.AsType[*stepError](err); ok && !r.over(ctx) {
			err = r.halt(ctx, step, 0, own.error)
		}
		return true, err
	case unfinished.Stop:
		return false, r.halt(ctx, step, 0, errUnfinished)
	}
	return false, nil
}
