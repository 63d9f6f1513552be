package redis

import (
	"context"
	"errors"
	"fmt"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	redisstore "github.com/ringfence/ringfence/internal/marks/redis"
)

// answered puts what went wrong with a call into a journal's words.
func answered(ctx context.Context, err error) error {
	err = redisstore.Explain(err)
	var answer driver.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fence.ErrNoToken), errors.Is(err, fence.ErrNotAllowed):
		return &fence.SetupError{What: "a guard answers at the journal's address, and it lets " +
			"nobody near the keys of ringfence", Hint: "give the journal the URL of Redis itself, " +
			"and the guard's to Options.Raiser", Cause: err}
	case errors.Is(err, redisstore.ErrUnknown):
		return because(ctx, fmt.Errorf("%w: %w", checkpoint.ErrUnknown, err))
	case settled(err):
		return err
	case driver.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("%w; nothing was changed: somebody else writes to it: %w",
			checkpoint.ErrCorrupt, err)
	case errors.As(err, &answer) && !passing(err):
		return err
	}
	return because(ctx, fmt.Errorf("%w: %w", checkpoint.ErrTransient, err))
}

// read is answered for a call that changes nothing, whatever became of it.
func read(ctx context.Context, err error) error {
	if err = answered(ctx, err); errors.Is(err, checkpoint.ErrUnknown) {
		return because(ctx, fmt.Errorf("%w: %v", checkpoint.ErrTransient, err))
	}
	return err
}

// raised is for errors of a raise, which may be repeated.
func raised(ctx context.Context, err error) error {
	if err == nil || settled(err) {
		return err
	}
	return because(ctx, fmt.Errorf("%w: the mark may be raised: %w", checkpoint.ErrTransient, err))
}

// settled errors are about the call itself, or for an operator: the same call would meet them
// again.
func settled(err error) bool {
	var refused *fence.Refusal
	var setup *fence.SetupError
	return errors.As(err, &refused) || errors.As(err, &setup) || errors.Is(err, driver.ErrClosed)
}

// passing says that Redis may answer differently later: it is full, cannot write its files, or
// waits for its replicas. A script that meets this has written nothing.
func passing(err error) bool {
	for _, code := range []string{"OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "BUSY ", "LOADING"} {
		if driver.HasErrorPrefix(err, code) {
			return true
		}
	}
	return driver.IsMaxClientsError(err)
}

// because adds why ctx has ended, if it has.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
