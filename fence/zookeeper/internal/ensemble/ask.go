package ensemble

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/internal/network/backoff"
)

// Ask calls ask with the client's session. If there is no reply, or the session's password is no
// longer the present one, it calls ask again with a new session, until the request timeout has
// passed. So ask may run several times.
func Ask[T any](
	ctx context.Context, c *Client, ask func(context.Context, *Session) (T, error),
) (T, error) {
	var none T
	caller := ctx
	ctx, done, err := c.Begin(ctx)
	if err != nil {
		return none, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, c.RequestTimeout())
	defer cancel()
	for n := 1; ctx.Err() == nil; n++ {
		value, again, err := askOnce(ctx, c, ask)
		if err == nil || !again && ctx.Err() == nil {
			return value, err
		}
		c.noteFailure(err)
		backoff.Pause(ctx, backoff.After(n, 10*time.Millisecond, time.Second))
	}
	return none, c.unreachable(caller)
}

func askOnce[T any](
	ctx context.Context, c *Client, ask func(context.Context, *Session) (T, error),
) (value T, again bool, err error) {
	s, err := c.session(ctx)
	if err != nil {
		return value, Unanswered(err), err
	}
	limited, cancel := context.WithTimeoutCause(ctx, c.RequestTimeout()/3, ErrSlow)
	defer cancel()
	value, err = ask(limited, s)
	if again = Unanswered(err) || Denied(err) && s.outdated(ctx); again {
		c.Drop(s)
	}
	return value, again, err
}
