package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/internal/backoff"
	"github.com/ringfence/ringfence/internal/cluster"
)

// Follow implements checkpoint.Journal. It watches the key. It reads it again when the watch ends,
// as after a compaction or when a member has lost its leader, and once per request timeout. It ends
// with ErrCorrupt if the key is not a checkpoint, and if etcd refuses a request. A checkpoint that
// was deleted and published again counts as newer.
func (j *Journal) Follow(
	ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
) error {
	if _, err := checkpoint.ParseName(string(task)); err != nil {
		return err
	}
	ctx, stop := j.client.WithEnd(ctx)
	defer stop()
	var seen int64 // the mod revision of the last checkpoint
	show := func(kv *mvccpb.KeyValue) error {
		if kv == nil || kv.ModRevision == seen {
			return nil
		}
		cp, err := j.decode(kv)
		if err != nil {
			return err
		}
		seen = kv.ModRevision
		return each(cp)
	}
	for failures := 0; ctx.Err() == nil; {
		kv, revision, err := j.read(ctx, task)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, cluster.ErrUnreachable):
			failures++
			j.client.Log.Warn("cannot follow the checkpoint", "task", task, "error", err)
			backoff.Pause(ctx, backoff.After(failures, backoff.Least, backoff.Most))
			continue
		case err != nil:
			return err
		}
		for failures = 0; ctx.Err() == nil; {
			if err := show(kv); err != nil {
				return err
			}
			if kv, revision = j.next(ctx, task, revision+1); kv == nil {
				break
			}
		}
	}
	return context.Cause(ctx)
}

// next waits for a change from a revision on, and returns the key as it is then, and the revision.
// It returns nil if the key has to be read: it was deleted, the watch has failed, or a request
// timeout has passed.
func (j *Journal) next(
	ctx context.Context, task checkpoint.Name, from int64,
) (*mvccpb.KeyValue, int64) {
	ctx, stop := context.WithTimeout(clientv3.WithRequireLeader(ctx), j.client.RequestTimeout())
	defer stop()
	calm := cluster.Calm(ctx)
	change := <-j.client.Watch(ctx, j.key(task), clientv3.WithRev(from))
	if n := len(change.Events); n > 0 && change.Events[n-1].Type == clientv3.EventTypePut {
		last := change.Events[n-1].Kv
		return last, last.ModRevision
	}
	calm()
	return nil, 0
}
