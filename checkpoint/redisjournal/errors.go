package redisjournal

import (
	"context"
	"errors"
	"fmt"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
)

// answered translates an error into one of checkpoint.Journal's.
func answered(ctx context.Context, err error) error {
	err = redismarks.Explain(err)
	var answer driver.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fence.ErrNoToken), errors.Is(err, fence.ErrNotAllowed):
		return &fence.SetupError{
			What:  "a guard answers at the journal's address, and it denies access to ringfence's keys",
			Hint:  "give the journal the URL of Redis itself, and the guard's to Options.Raiser",
			Cause: err,
		}
	case errors.Is(err, redismarks.ErrUnknown):
		return withCause(ctx, fmt.Errorf("%w: %w", checkpoint.ErrUnknown, err))
	case final(err):
		return err
	case driver.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("%w; nothing was changed: somebody else writes to it: %w",
			checkpoint.ErrCorrupt, err)
	case errors.As(err, &answer) && !retryable(err):
		return err
	}
	return withCause(ctx, fmt.Errorf("%w: %w", checkpoint.ErrTransient, err))
}

// read is answered for a call that changes nothing, so a lost answer is only transient.
func read(ctx context.Context, err error) error {
	if err = answered(ctx, err); errors.Is(err, checkpoint.ErrUnknown) {
		return withCause(ctx, fmt.Errorf("%w: %v", checkpoint.ErrTransient, err))
	}
	return err
}

// raised translates an error of a raise. A raise may be repeated.
func raised(ctx context.Context, err error) error {
	if err == nil || final(err) {
		return err
	}
	return withCause(ctx, fmt.Errorf("%w: the mark may be raised: %w", checkpoint.ErrTransient, err))
}

// final reports whether the same call would fail again: the call is wrong, or an operator has to
// act.
func final(err error) bool {
	var refused *fence.Refusal
	var setup *fence.SetupError
	return errors.As(err, &refused) || errors.As(err, &setup) || errors.Is(err, driver.ErrClosed)
}

// retryable reports whether a retry may succeed: Redis is full, cannot write its files, waits for
// replicas, is busy or loads its data. A script with this error has written nothing.
func retryable(err error) bool {
	for _, code := range []string{"OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "BUSY ", "LOADING"} {
		if driver.HasErrorPrefix(err, code) {
			return true
		}
	}
	return driver.IsMaxClientsError(err)
}

// withCause adds the cause of ctx, if ctx has ended.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
