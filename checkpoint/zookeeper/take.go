package zookeeper

import (
	"context"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// Take implements checkpoint.Journal. It compares have with the znode's stat, so that a current
// copy costs no transfer.
func (j *Journal) Take(
	ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
) (cp checkpoint.Checkpoint, same bool, err error) {
	if _, err := checkpoint.ParseName(string(task)); err != nil {
		return checkpoint.Checkpoint{}, false, err
	}
	is := j.owners.of(task)
	unless := have
	if is.created == 0 {
		unless = 0 // the data is needed for the resource
	}
	doc, unsent, err := j.documents.Take(ctx, c, string(task), unless)
	if err == nil && unsent && doc.Created != is.created { // deleted and created again since
		doc, unsent, err = j.documents.Take(ctx, c, string(task), 0)
	}
	switch {
	case err != nil:
		return checkpoint.Checkpoint{}, false, answer(ctx, err)
	case doc.Version == 0:
		j.owners.forget(task)
		return checkpoint.Checkpoint{}, have == 0, nil
	case !unsent:
		if cp, err = j.decode(doc); err != nil {
			return checkpoint.Checkpoint{}, false, err
		}
		is = owner{resource: cp.Resource, created: doc.Created}
	}
	if is.resource != c.Resource {
		return checkpoint.Checkpoint{}, false, otherResource(task, is.resource, c)
	}
	is.under = c.Token
	j.owners.learn(task, is)
	if doc.Version == have {
		return checkpoint.Checkpoint{}, true, nil
	}
	return cp, false, nil
}
