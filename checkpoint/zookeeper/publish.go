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
// Whose task it is, is looked at before and not in the transaction. That is enough: the resource is
// fixed by the first version, and each later one is published by a claim to the same. So what a
// look has seen stays true, and a task that was not there is made by version 1, which lands on
// nothing that is there.
func (j *Journal) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	if _, err := checkpoint.ParseName(string(cp.Task)); err != nil {
		return err
	}
	if cp.Resource != c.Resource {
		return j.stranger(ctx, c, cp.Task, cp.Resource)
	}
	data, err := json.Marshal(cp)
	if err != nil {
		return fmt.Errorf("checkpoint %d of %s cannot be written as JSON; nothing has landed: %w",
			cp.Version, cp.Task, err)
	}
	if cp.Version > 1 {
		if err := j.own(ctx, c, cp.Task); err != nil {
			return err
		}
	}
	err = j.documents.Write(ctx, c, document{Name: string(cp.Task), Data: data, Version: cp.Version})
	switch {
	case err == nil:
		j.owners.learn(cp.Task, cp.Resource)
	case errors.Is(err, errVersion):
		if err := j.own(ctx, c, cp.Task); err != nil {
			return err
		}
	}
	return answer(ctx, err)
}

// own returns nil if the task is of the claim's resource, or nobody's yet.
func (j *Journal) own(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
	owner, known := j.owners.of(task)
	if !known {
		doc, err := j.documents.Read(ctx, string(task))
		if err != nil {
			return answer(ctx, err)
		}
		if doc.Version == 0 {
			return nil
		}
		cp, err := j.decode(doc)
		if err != nil {
			return err
		}
		owner = cp.Resource
	}
	if owner != c.Resource {
		return j.stranger(ctx, c, task, owner)
	}
	return nil
}

// stranger refuses a claim to another resource than the task's; one that does not lead is told that
// first.
func (j *Journal) stranger(
	ctx context.Context, c fence.Claim, task checkpoint.Name, owner fence.Resource,
) error {
	if err := j.Raise(ctx, c); err != nil {
		return err
	}
	return otherResource(task, owner, c)
}
