package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// sight is what was seen and what tells that it may have changed.
type sight[T any] struct {
	seen    T
	changed <-chan zk.Event
	broken  <-chan struct{}
}

// wait returns when it is time to look again; after so long in case a notice went missing.
func (v sight[T]) wait(ctx context.Context, most time.Duration) {
	again := time.NewTimer(most)
	defer again.Stop()
	select {
	case <-v.changed:
	case <-v.broken:
	case <-again.C:
	case <-ctx.Done():
	}
}

// follow shows each what look sees, and again what it sees after every change, until ctx ends, each returns an error, or
// the ensemble refuses. While nobody answers it keeps trying.
func follow[T any](ctx context.Context, c *Coordinator, what string, look func(context.Context, *session) (sight[T], error), each func(T) error) error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.work.Done()
	ctx, stop := c.until(ctx)
	defer stop()
	for failures := 0; ctx.Err() == nil; {
		v, err := observe(ctx, c, look)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrUnreachable):
			failures++
			c.log.Warn("lost sight of "+what, "error", err)
			pause(ctx, backoff(failures, backoffLeast, backoffMost))
			continue
		case err != nil:
			return err
		default:
			if err := each(v.seen); err != nil {
				return err
			}
		}
		if ctx.Err() == nil {
			failures = 0
			v.wait(ctx, c.timeout)
		}
	}
	return context.Cause(ctx)
}
