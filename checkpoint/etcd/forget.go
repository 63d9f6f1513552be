package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// forgetTries is how often Forget begins again if the key was deleted or created meanwhile.
const forgetTries = 10

// Forget implements checkpoint.Journal with one transaction, which also checks the leader's
// candidate and that the key is still the one whose resource is known.
func (j *Journal) Forget(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
	if err := wellFormed(c, task); err != nil {
		return err
	}
	for range forgetTries {
		deleted, err := j.forget(ctx, c, task)
		if deleted || err != nil {
			return err
		}
		j.leading.Forget(c.Resource)
		j.owners.forget(task)
		if err := j.Raise(ctx, c); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %s was begun again each time that it was to be deleted",
		checkpoint.ErrTransient, task)
}

// forget deletes the key if the claim leads and the key is the one that was looked up, or if there
// is none.
func (j *Journal) forget(
	ctx context.Context, c fence.Claim, task checkpoint.Name,
) (deleted bool, err error) {
	candidate, err := j.candidate(ctx, c)
	if err != nil {
		return false, err
	}
	is, err := j.ownerOf(ctx, c, task)
	if err != nil {
		return false, err
	}
	resp, err := j.send(ctx, c, task, clientv3.OpDelete(j.key(task)), append(
		j.leading.Conditions(c, candidate),
		clientv3.Compare(clientv3.CreateRevision(j.key(task)), "=", is.created),
	))
	if err != nil || !resp.Succeeded {
		return false, err
	}
	j.owners.forget(task)
	return true, nil
}
