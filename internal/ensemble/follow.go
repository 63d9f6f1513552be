package ensemble

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/internal/backoff"
)

// Follow calls each with what read returns, and again after every change, until ctx ends, each
// returns an error, or the ensemble denies access. read also returns a watch on what it has read.
// While nobody answers, Follow retries.
func Follow[T any](
	ctx context.Context, c *Client, what string,
	read func(context.Context, *Session) (T, <-chan zk.Event, error), each func(T) error,
) error {
	if err := c.Begin(); err != nil {
		return err
	}
	defer c.Done()
	ctx, stop := c.WithClose(ctx)
	defer stop()
	for failures := 0; ctx.Err() == nil; {
		last, err := Ask(ctx, c, func(ctx context.Context, s *Session) (watchedValue[T], error) {
			value, changed, err := read(ctx, s)
			return watchedValue[T]{value, changed, s.over}, err
		})
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrUnreachable):
			failures++
			c.log.Warn("cannot watch "+what, "error", err)
			backoff.Pause(ctx, backoff.After(failures, backoff.Least, backoff.Most))
			continue
		case err != nil:
			return err
		default:
			if err := each(last.value); err != nil {
				return err
			}
		}
		if ctx.Err() == nil {
			failures = 0
			last.wait(ctx, c.timeout)
		}
	}
	return context.Cause(ctx)
}

// watchedValue is what was read, and what says that it may have changed.
type watchedValue[T any] struct {
	value   T
	changed <-chan zk.Event
	over    <-chan struct{} // the session in which it was read
}

// wait returns when it is time to read again: after a change, or after most, in case a notice was
// lost.
func (w watchedValue[T]) wait(ctx context.Context, most time.Duration) {
	again := time.NewTimer(most)
	defer again.Stop()
	select {
	case <-w.changed:
	case <-w.over:
	case <-again.C:
	case <-ctx.Done():
	}
}
