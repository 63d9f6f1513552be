package campaign

import (
	"context"
	"errors"
	"slices"

	"github.com/ringfence/ringfence/internal/network/backoff"
)

// Repeat calls watch until ctx or the Frame ends, the function of OnChange fails, or watch returns
// an error. watch reads, tells what it has read, and waits for a change. While nobody answers,
// Repeat retries. what is for the log.
func (f *Frame) Repeat(ctx context.Context, what string, watch func(context.Context) error) error {
	ctx, done, err := f.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	for failures := 0; ctx.Err() == nil; {
		err := watch(ctx)
		if ended, ok := errors.AsType[stopped](err); ok {
			return ended.error
		}
		switch {
		case ctx.Err() != nil:
		case err == nil:
			failures = 0
		case errors.Is(err, ErrUnreachable):
			failures++
			f.Pause(ctx, what, failures, err)
		default:
			return err
		}
	}
	return context.Cause(ctx)
}

// Pause waits before a watch is tried again, after so many failures in turn, and logs that.
func (f *Frame) Pause(ctx context.Context, what string, failures int, err error) {
	wait := backoff.After(failures, backoff.Min, backoff.Max)
	f.Log.Warn("cannot watch "+what, "error", err, "failures", failures, "in", wait)
	backoff.Pause(ctx, wait)
}

// stopped is an error of the function that a watch calls, which ends the watch.
type stopped struct{ error }

// OnChange returns a function that calls each the first time, and when its argument is not the same
// as the one before. An error of each ends Repeat.
func OnChange[T any](same func(now, before T) bool, each func(T) error) func(T) error {
	first := true
	var before T
	return func(now T) error {
		if !first && same(now, before) {
			return nil
		}
		first, before = false, now
		if err := each(now); err != nil {
			return stopped{err}
		}
		return nil
	}
}

// OnOther is OnChange for lists. each gets a copy.
func OnOther[T comparable](each func([]T) error) func([]T) error {
	return OnChange(slices.Equal[[]T], func(now []T) error { return each(slices.Clone(now)) })
}
