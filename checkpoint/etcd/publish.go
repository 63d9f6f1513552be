package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cluster"
)

// Publish implements checkpoint.Journal.
func (j *Journal) Publish(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
	if err := wellFormed(c, cp.Task); err != nil {
		return err
	}
	if cp.Resource != c.Resource {
		return j.refuseOther(ctx, c, cp.Task, cp.Resource)
	}
	data, err := j.encode(cp)
	if err != nil {
		return err
	}
	candidate, err := j.candidate(ctx, c)
	if err != nil {
		return err
	}
	var is owner
	if cp.Version > 1 {
		if is, err = j.ownerOf(ctx, c, cp.Task); err != nil {
			return err
		}
	}
	resp, err := j.send(ctx, c, cp.Task, clientv3.OpPut(j.key(cp.Task), data), append(
		j.leading.Conditions(c, candidate),
		clientv3.Compare(clientv3.Version(j.key(cp.Task)), "=", cp.Version-1),
		clientv3.Compare(clientv3.CreateRevision(j.key(cp.Task)), "=", is.created),
	))
	switch {
	case err != nil:
		return err
	case !resp.Succeeded:
		err := j.unwritten(ctx, c, cp)
		if now, _ := j.owners.of(cp.Task); errors.Is(err, checkpoint.ErrConflict) &&
			cp.Version > 1 && now.created > is.created {
			return j.Publish(ctx, c, cp) // the task was forgotten and begun again since is was learned
		}
		return err
	case cp.Version == 1:
		j.owners.learn(cp.Task, owner{cp.Resource, resp.Header.Revision})
	}
	return nil
}

// encode returns the checkpoint as JSON.
func (j *Journal) encode(cp checkpoint.Checkpoint) (string, error) {
	data, err := json.Marshal(cp)
	switch {
	case err != nil:
		return "", fmt.Errorf("checkpoint %d of %s cannot be written as JSON; nothing has landed: %w",
			cp.Version, cp.Task, err)
	case len(data) > j.limit:
		return "", fmt.Errorf("%w: %s has %d bytes, the limit of this journal is %d; "+
			"nothing was sent: keep large data elsewhere, and where it is in the state",
			checkpoint.ErrTooLarge, cp.Task, len(data), j.limit)
	case cp.Version < 1:
		return "", fmt.Errorf("%w: the first version of %s is 1, not %d; nothing was sent",
			checkpoint.ErrConflict, cp.Task, cp.Version)
	}
	return string(data), nil
}

// send sends a change of a task's key at most once. If it returns an error that is not ErrUnknown,
// nothing has landed.
func (j *Journal) send(
	ctx context.Context, c fence.Claim, task checkpoint.Name, change clientv3.Op, checks []clientv3.Cmp,
) (*clientv3.TxnResponse, error) {
	// A request on a broken connection would be of unknown outcome, although it is never sent.
	if j.client.ActiveConnection().GetState() != connectivity.Ready {
		if err := j.reach(ctx); err != nil {
			return nil, answer(ctx, err)
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%w: %w", checkpoint.ErrTransient, context.Cause(ctx))
	}
	ctx, stop := j.client.WithEnd(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, j.client.RequestTimeout())
	defer cancel()
	resp, err := j.client.Txn(ctx).If(checks...).Then(change).Commit()
	switch {
	case err == nil && resp.Succeeded:
		if err := cluster.CheckCluster(c.Issuer, resp.Header); err != nil {
			return nil, fmt.Errorf("%w: %w", checkpoint.ErrUnknown, err)
		}
		return resp, nil
	case err == nil:
		return resp, nil
	case cluster.TooLarge(err):
		return nil, fmt.Errorf("%w: %s has %d bytes, and etcd refuses a request of that size: "+
			"its --max-request-bytes is too low for this journal's limit of %d; nothing has landed: "+
			"raise it on every member, or make the state smaller: %w",
			checkpoint.ErrTooLarge, task, len(change.ValueBytes()), j.limit, err)
	case cluster.Refused(err):
		return nil, fmt.Errorf("etcd refuses to write %s: %w", j.key(task), err)
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return nil, fmt.Errorf("%w: %w", checkpoint.ErrTransient, err)
	}
	return nil, fmt.Errorf("%w: %w", checkpoint.ErrUnknown, cluster.Unclear(ctx, err))
}

// unwritten explains a transaction of which a check has failed. A claim that still leads led at
// that time too, so the version was another one.
func (j *Journal) unwritten(
	ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint,
) error {
	j.leading.Forget(c.Resource)
	j.owners.forget(cp.Task)
	if err := j.Raise(ctx, c); err != nil {
		return err
	}
	if _, err := j.ownerOf(ctx, c, cp.Task); err != nil {
		return err
	}
	return fmt.Errorf("%w: version %d of %s cannot follow it; nothing was changed",
		checkpoint.ErrConflict, cp.Version, cp.Task)
}

// ownerOf returns the owner of a task, which is the claim's resource, or nobody if the task does
// not exist.
func (j *Journal) ownerOf(
	ctx context.Context, c fence.Claim, task checkpoint.Name,
) (is owner, err error) {
	is, known := j.owners.of(task)
	if !known || is.resource != c.Resource { // it may have been forgotten and begun again
		kv, _, err := j.read(ctx, task)
		if err != nil {
			return owner{}, answer(ctx, err)
		}
		if kv == nil {
			return owner{}, nil
		}
		cp, err := j.decode(kv)
		if err != nil {
			return owner{}, err
		}
		is = owner{cp.Resource, kv.CreateRevision}
	}
	if is.resource != c.Resource {
		return owner{}, j.refuseOther(ctx, c, task, is.resource)
	}
	return is, nil
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
