package zookeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// Publish implements checkpoint.Journal.
//
// The task's resource is checked before the transaction and not in it. That suffices. Version 1
// fixes the resource, and it only lands if there is no task yet. Later versions need a claim to the
// same resource, and so does Forget, after which a leader of another resource may begin a task of
// this name. So the resource that was read under the claim is right as long as the claim leads,
// unless this same term forgets the task.
func (j *Journal) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	if _, err := checkpoint.ParseName(string(cp.Task)); err != nil {
		return err
	}
	if cp.Resource != c.Resource {
		return j.refuseOther(ctx, c, cp.Task, cp.Resource)
	}
	data, err := json.Marshal(cp)
	if err != nil {
		return fmt.Errorf("checkpoint %d of %s cannot be written as JSON; nothing has landed: %w",
			cp.Version, cp.Task, err)
	}
	if cp.Version > 1 {
		if err := j.checkOwner(ctx, c, cp.Task); err != nil {
			return err
		}
	}
	err = j.documents.Write(ctx, c, document{Name: string(cp.Task), Data: data, Version: cp.Version})
	switch {
	case err == nil:
		if cp.Version == 1 {
			j.owners.learn(cp.Task, owner{resource: cp.Resource, under: c.Token})
		}
	case errors.Is(err, errVersion):
		if err := j.checkOwner(ctx, c, cp.Task); err != nil {
			return err
		}
	}
	return answer(ctx, err)
}

// checkOwner returns nil if the task belongs to the claim's resource or does not exist yet.
func (j *Journal) checkOwner(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
	if is := j.owners.of(task); is.resource == c.Resource && is.under == c.Token {
		return nil
	}
	_, _, err := j.Take(ctx, c, task, 0)
	return err
}

// refuseOther refuses a claim to another resource than the task's. If the claim does not lead, that
// is the error.
func (j *Journal) refuseOther(
	ctx context.Context, c fence.Claim, task checkpoint.Name, owner fence.Resource,
) error {
	if err := j.Raise(ctx, c); err != nil {
		return err
	}
	return otherResource(task, owner, c)
}
