package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
)

// answer translates an error into one of checkpoint.Journal's. ctx is the context of the call. If
// it has ended, nothing has landed, unless the error is ensemble.ErrUnanswered.
func answer(ctx context.Context, err error) error {
	_, refusal := errors.AsType[*fence.Refusal](err)
	switch {
	case err == nil || refusal:
		return err
	case errors.Is(err, ensemble.ErrUnanswered):
		return fmt.Errorf("%w: %w", checkpoint.ErrUnknown, err)
	case errors.Is(err, errVersion):
		return fmt.Errorf("%w: %w", checkpoint.ErrConflict, err)
	case errors.Is(err, errTooLarge):
		return fmt.Errorf("%w: %w", checkpoint.ErrTooLarge, err)
	case errors.Is(err, ensemble.ErrUnreachable) || ctx.Err() != nil:
		return fmt.Errorf("%w: %w", checkpoint.ErrTransient, err)
	}
	return err
}

func otherResource(task checkpoint.Name, owner fence.Resource, c fence.Claim) error {
	return fmt.Errorf("%w: %s is a task of %q, the claim is to %q; nothing was changed",
		checkpoint.ErrOtherResource, task, owner, c.Resource)
}
