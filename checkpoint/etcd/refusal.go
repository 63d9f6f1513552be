package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cluster"
)

// answer translates an error of a call that has changed nothing into one of checkpoint.Journal's.
// ctx is the context of the call.
func answer(ctx context.Context, err error) error {
	_, refusal := errors.AsType[*fence.Refusal](err)
	switch {
	case err == nil || refusal:
		return err
	case errors.Is(err, cluster.ErrUnreachable) || ctx.Err() != nil:
		return fmt.Errorf("%w: %w", checkpoint.ErrTransient, err)
	}
	return err
}

func otherResource(task checkpoint.Name, owner fence.Resource, c fence.Claim) error {
	return fmt.Errorf("%w: %s is a task of %q, the claim is to %q; nothing was changed",
		checkpoint.ErrOtherResource, task, owner, c.Resource)
}
