package records

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// Retry calls try until it succeeds, ctx ends, or an error cannot be fixed by trying again. If the
// answer of any try was lost, the error matches documents.ErrUnknown.
func Retry(ctx context.Context, try func() error) error {
	var lost error
	for failures := 1; ; failures++ {
		err := try()
		if errors.Is(err, documents.ErrUnknown) {
			lost = err
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w (last: %w)", context.Cause(ctx), unlessLost(lost, err))
		case !Again(err):
			return unlessLost(lost, err)
		}
		backoff.Pause(ctx, backoff.After(failures, backoff.Min, backoff.Max))
	}
}

// unlessLost returns an error so that it does not say that nothing was done, if an answer was lost
// before it.
func unlessLost(lost, err error) error {
	switch {
	case lost == nil || errors.Is(err, documents.ErrUnknown):
		return err
	case errors.Is(err, fence.ErrNotDone):
		return fmt.Errorf("%w; then the coordinator was out of reach", lost)
	}
	return fmt.Errorf("%w; before that: %w", err, lost)
}

// Again reports an error after which a step may be tried again, from a status that is read anew.
func Again(err error) bool {
	return errors.Is(err, documents.ErrConflict) || errors.Is(err, documents.ErrUnknown) ||
		errors.Is(err, documents.ErrUnreachable)
}
