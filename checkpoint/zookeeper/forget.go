package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
)

// forgetTries is how often Forget begins again if the task is published meanwhile, which only this
// term can do.
const forgetTries = 10

// Forget implements checkpoint.Journal. It reads the checkpoint under the claim, as Take does, and
// deletes the version that it has read in one transaction, which also checks that the leader's
// candidate exists. If there is nothing to read, no older leader can publish any more either.
func (j *Journal) Forget(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
	if _, err := checkpoint.ParseName(string(task)); err != nil {
		return err
	}
	for range forgetTries {
		doc, _, err := j.documents.Take(ctx, c, string(task), 0)
		if err == nil && doc.Version > 0 {
			err = j.forget(ctx, c, doc)
		}
		if !errors.Is(err, errVersion) {
			if err == nil {
				j.owners.forget(task)
			}
			return answer(ctx, err)
		}
	}
	return fmt.Errorf("%w: %s was published again each time that it was to be deleted",
		checkpoint.ErrTransient, task)
}

// forget deletes a document if it is a checkpoint of the claim's resource.
func (j *Journal) forget(ctx context.Context, c fence.Claim, doc document) error {
	cp, err := j.decode(doc)
	if err != nil {
		return err
	}
	if cp.Resource != c.Resource {
		return otherResource(cp.Task, cp.Resource, c)
	}
	return j.documents.Delete(ctx, c, doc)
}

// Delete deletes a document, only if the claim leads and the stored version is doc.Version. The
// deletion is durable when Delete returns nil. After any error but ensemble.ErrUnanswered nothing
// was deleted. Refusals are those of Confirm.
func (d *documents) Delete(ctx context.Context, c fence.Claim, doc document) error {
	at, err := d.path(doc.Name)
	if err != nil {
		return err
	}
	znode, err := d.candidate(ctx, c)
	if err != nil {
		return err
	}
	results, err := ensemble.Transact(ctx, d.client, ensemble.CheckExists(znode),
		&zk.DeleteRequest{Path: at, Version: int32(doc.Version - 1)})
	switch {
	case len(results) < 2 || err == nil:
		return d.client.Explain(d.dir, err)
	case errors.Is(results[0].Error, zk.ErrNoNode):
		return d.gone(ctx, c)
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return fmt.Errorf("%w: version %d of %s is not stored any more; nothing was changed",
			errVersion, doc.Version, doc.Name)
	}
	return d.client.Explain(at, err)
}
