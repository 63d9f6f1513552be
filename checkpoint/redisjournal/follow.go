package redisjournal

import (
	"context"
	"errors"
	"strconv"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// Follow implements checkpoint.Journal with a subscription, and polls every Options.Poll. It holds
// one connection. After Redis has lost checkpoints, Follow shows none until a newer version than
// the last one is stored. It also ends if the user lacks a right, and after Close.
func (j *Journal) Follow(
	ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
) error {
	if _, err := checkpoint.ParseName(string(task)); err != nil {
		return err
	}
	news := j.db.Subscribe(ctx, channel(task))
	defer news.Close()
	// The driver's receive does not end with ctx.
	defer context.AfterFunc(ctx, func() { _ = news.Close() })()
	for seen := int64(0); ; {
		cp, err := j.newer(ctx, task, seen)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case endsFollow(err):
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

// newer reads the checkpoint if its version is above seen.
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

// endsFollow reports whether waiting cannot fix the error.
func endsFollow(err error) bool {
	var setup *fence.SetupError
	return errors.As(err, &setup) || errors.Is(err, driver.ErrClosed)
}

// resubscribeWait is how long a follower waits after a broken connection before it subscribes
// again.
const resubscribeWait = 100 * time.Millisecond

// await returns when there may be something new: at a message, when the subscription has begun or
// begun again, and when it is time to poll.
func await(ctx context.Context, news *driver.PubSub, poll time.Duration) {
	begun := time.Now()
	_, err := news.ReceiveTimeout(ctx, poll)
	if err == nil {
		return
	}
	wait := poll - time.Since(begun) // 0 or less after a timeout
	var answer driver.Error
	if !errors.As(err, &answer) { // an answer of Redis: the user has no right to the channel
		wait = min(wait, resubscribeWait)
	}
	rest := time.NewTimer(wait)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-ctx.Done():
	}
}
