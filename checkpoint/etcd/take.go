package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cluster"
)

// errChanged: the candidate changed between two reads. Look again.
var errChanged = errors.New("the election has changed meanwhile")

// Take implements checkpoint.Journal. It reads the candidate and the checkpoint in one transaction,
// which compares have with the key's version, so that a current copy costs no transfer.
func (j *Journal) Take(
	ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
) (cp checkpoint.Checkpoint, same bool, err error) {
	if err := wellFormed(c, task); err != nil {
		return checkpoint.Checkpoint{}, false, err
	}
	got, err := cluster.Ask(ctx, j.client, "take "+string(task), func(
		ctx context.Context,
	) (taken, error) {
		return j.take(ctx, c, task, have)
	})
	switch {
	case err != nil:
		return checkpoint.Checkpoint{}, false, answer(ctx, err)
	case got.kv == nil:
		return checkpoint.Checkpoint{}, have == 0, nil
	}
	owner := got.owner
	if !got.current {
		if cp, err = j.decode(got.kv); err != nil {
			return checkpoint.Checkpoint{}, false, err
		}
		owner = cp.Resource
	}
	if owner != c.Resource {
		return checkpoint.Checkpoint{}, false, otherResource(task, owner, c)
	}
	if got.kv.Version == have {
		return checkpoint.Checkpoint{}, true, nil
	}
	return cp, false, nil
}

// taken is a task's key as it was read under a claim.
type taken struct {
	kv      *mvccpb.KeyValue // nil: there is none
	current bool             // the version is have; kv has no value
	owner   fence.Resource   // if current
}

// take reads a task's key under the claim. The value is not sent if the version is have and the
// owner is known.
func (j *Journal) take(
	ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
) (taken, error) {
	candidate, err := j.leading.Candidate(ctx, c)
	if err != nil {
		return taken{}, err
	}
	key := j.key(task)
	reads := func(o ...clientv3.OpOption) []clientv3.Op {
		return []clientv3.Op{
			clientv3.OpGet(j.client.IssuerKey()), clientv3.OpGet(candidate, clientv3.WithKeysOnly()),
			clientv3.OpGet(key, o...),
		}
	}
	is, _ := j.owners.of(task)
	resp, err := j.client.Txn(ctx).
		If(clientv3.Compare(clientv3.Version(key), "=", have),
			clientv3.Compare(clientv3.CreateRevision(key), "=", is.created)).
		Then(reads(clientv3.WithKeysOnly())...).
		Else(reads()...).
		Commit()
	if err != nil {
		return taken{}, err
	}
	issuer, err := j.client.ReadIssuer(ctx, resp, 0)
	if err != nil {
		return taken{}, err
	}
	there := resp.Responses[1].GetResponseRange().Kvs
	if issuer != c.Issuer || len(there) == 0 || there[0].CreateRevision != int64(c.Token) {
		j.leading.Forget(c.Resource)
		if _, err := j.leading.Find(ctx, c); err != nil {
			return taken{}, err // which says why
		}
		return taken{}, errChanged
	}
	if kvs := resp.Responses[2].GetResponseRange().Kvs; len(kvs) > 0 {
		return taken{kvs[0], resp.Succeeded, is.resource}, nil
	}
	return taken{}, nil
}
