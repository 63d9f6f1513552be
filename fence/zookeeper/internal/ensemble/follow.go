package ensemble

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// Follow calls tell with what read returns, and again after every change, until ctx ends, tell
// fails (campaign.OnChange), or the ensemble denies access. read also returns a watch on what it
// has read. While nobody answers, Follow retries.
func Follow[T any](
	ctx context.Context, c *Client, what string,
	read func(context.Context, *Session) (T, <-chan zk.Event, error), tell func(T) error,
) error {
	return c.Repeat(ctx, what, func(ctx context.Context) error {
		var changed <-chan zk.Event
		var over <-chan struct{} // the session in which it was read
		value, err := Ask(ctx, c, func(ctx context.Context, s *Session) (value T, err error) {
			over = s.over
			value, changed, err = read(ctx, s)
			return value, err
		})
		if err == nil {
			err = tell(value)
		}
		if err != nil {
			return err
		}
		again := time.NewTimer(c.Timeout) // in case a notice was lost
		defer again.Stop()
		select {
		case <-changed:
		case <-over:
		case <-again.C:
		case <-ctx.Done():
		}
		return nil
	})
}

// WatchOrAwait reads a znode with a function such as WatchData. If the znode does not exist, it
// sets a watch on its creation, and returns the zero value.
func WatchOrAwait[T any](
	ctx context.Context, s *Session, at string,
	watch func(context.Context, string) (T, <-chan zk.Event, error),
) (T, <-chan zk.Event, error) {
	var none T
	if err := s.Sync(ctx); err != nil {
		return none, nil, err
	}
	for {
		value, changed, err := watch(ctx, at)
		if !errors.Is(err, zk.ErrNoNode) {
			return value, changed, s.Client.Explain(at, err)
		}
		exists, changed, err := s.watchExistence(ctx, at)
		if err != nil || !exists {
			return none, changed, s.Client.Explain(at, err)
		}
	}
}
