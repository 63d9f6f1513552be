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
	owner, known := j.owners.of(task)
	unless := have
	if !known {
		unless = 0 // the data is needed for the resource
	}
	doc, unsent, err := j.documents.Take(ctx, c, string(task), unless)
	switch {
	case err != nil:
		return checkpoint.Checkpoint{}, false, answer(ctx, err)
	case doc.Version == 0:
		return checkpoint.Checkpoint{}, have == 0, nil
	case !unsent:
		if cp, err = j.decode(doc); err != nil {
			return checkpoint.Checkpoint{}, false, err
		}
		owner = cp.Resource
	}
	if owner != c.Resource {
		return checkpoint.Checkpoint{}, false, otherResource(task, owner, c)
	}
	if doc.Version == have {
		return checkpoint.Checkpoint{}, true, nil
	}
	return cp, false, nil
}
