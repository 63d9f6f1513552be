package redis

import (
	"context"
	"errors"
	"strconv"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// Follow is checkpoint.Journal's: a subscription, and a look every Options.Poll. It holds one
// connection. A checkpoint that went back, because Redis has lost some, is not shown until it is
// newer again. Missing rights, and Close, end it too.
func (j *Journal) Follow(
	ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
) error {
	if _, err := checkpoint.ParseName(string(task)); err != nil {
		return err
	}
	news := j.db.Subscribe(ctx, channel(task))
	defer news.Close()
	// The driver waits for news, not for ctx.
	defer context.AfterFunc(ctx, func() { _ = news.Close() })()
	for seen := int64(0); ; {
		cp, err := j.newer(ctx, task, seen)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case hopeless(err):
			return err
		case err == nil && cp.Version > seen:
			seen = cp.Version
			if err := each(cp); err != nil {
				return err
			}
		}
		await(ctx, news, j.o.Poll)
	}
}

// newer reads the checkpoint if it has a higher version than the one that was seen.
func (j *Journal) newer(
	ctx context.Context, task checkpoint.Name, seen int64,
) (cp checkpoint.Checkpoint, err error) {
	version, err := j.db.HGet(ctx, key(task), "version").Result()
	switch {
	case errors.Is(err, driver.Nil):
		return cp, nil
	case err != nil:
		return cp, read(ctx, err)
	}
	if n, err := strconv.ParseInt(version, 10, 64); err != nil || n <= seen {
		return cp, err
	}
	found, err := j.load(ctx, []checkpoint.Name{task})
	if len(found) == 0 {
		return cp, err
	}
	return found[0], nil
}

// hopeless errors do not end by waiting.
func hopeless(err error) bool {
	var setup *fence.SetupError
	return errors.As(err, &setup) || errors.Is(err, driver.ErrClosed)
}

// anew is how long a follower that was cut off waits before it subscribes again.
const anew = 100 * time.Millisecond

// await returns when there may be something new: at news, when the subscription has begun, anew or
// for the first time, and when it is time to look.
func await(ctx context.Context, news *driver.PubSub, poll time.Duration) {
	begun := time.Now()
	_, err := news.ReceiveTimeout(ctx, poll)
	if err == nil {
		return
	}
	wait := poll - time.Since(begun) // none after a poll's time without news
	var answer driver.Error
	if !errors.As(err, &answer) { // else the channel is out of reach
		wait = min(wait, anew)
	}
	rest := time.NewTimer(wait)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
	}
}
