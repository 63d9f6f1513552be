package campaign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// Ask repeats a round trip until the coordinator answers: for the request timeout, or until ctx or
// the Frame ends. try must be safe to repeat, because an attempt without an answer may have taken
// effect. Ask returns a *fence.Refusal of try at once, and what Refused and Ends report. what is
// for the error, which matches ErrUnreachable if nobody answered.
func Ask[T any](
	ctx context.Context, f *Frame, what string, try func(context.Context) (T, error),
) (T, error) {
	return AskWithin(ctx, f, what, f.RequestTimeout()/2, try)
}

// AskWithin is Ask with another limit for each attempt.
func AskWithin[T any](
	ctx context.Context, f *Frame, what string, limit time.Duration,
	try func(context.Context) (T, error),
) (T, error) {
	var none T
	ctx, done, err := f.Begin(ctx)
	if err != nil {
		return none, err
	}
	defer done()
	bounded, cancel := context.WithTimeout(ctx, f.RequestTimeout())
	defer cancel()
	var last error
	for failures := 1; ; failures++ {
		answer, err := Attempt(bounded, limit, try)
		_, refusal := errors.AsType[*fence.Refusal](err)
		switch {
		case err == nil:
			return answer, nil
		case refusal:
			return none, err
		case f.Refused(err), f.Ends != nil && f.Ends(err):
			return none, fmt.Errorf("%s: %w", what, err)
		case bounded.Err() == nil || last == nil:
			last = err
		}
		backoff.Pause(bounded, max(f.turn(), backoff.After(failures, 20*time.Millisecond, time.Second)))
		if bounded.Err() == nil {
			continue
		}
		if f.Failure != nil {
			last = f.Failure(last)
		}
		if ctx.Err() != nil {
			// The last failure may be that of a context that nobody but the coordinator has ended.
			return none, fmt.Errorf("%s: %v (%w)", what, last, context.Cause(ctx))
		}
		return none, fmt.Errorf("%s: %w (for %s: %w)", what, ErrUnreachable, f.RequestTimeout(), last)
	}
}

// Retries of all calls together: a process may have dozens under way when the coordinator fails.
const (
	retryEvery = 250 * time.Millisecond
	retryBurst = 10
)

// turn returns how long a retry waits for its turn: half of a call's time at most.
func (f *Frame) turn() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if earliest := now.Add(-retryBurst * retryEvery); f.turns.Before(earliest) {
		f.turns = earliest
	}
	f.turns = f.turns.Add(retryEvery)
	if latest := now.Add(f.RequestTimeout() / 2); f.turns.After(latest) {
		f.turns = latest
	}
	return f.turns.Sub(now)
}

// Attempt bounds one round trip.
func Attempt[T any](
	ctx context.Context, limit time.Duration, try func(context.Context) (T, error),
) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return try(ctx)
}
