package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cluster"
)

// page is how many checkpoints are read in one request.
const page = 16

// Load implements checkpoint.Journal. If some keys are not checkpoints, it returns the others
// together with an error that names them and matches ErrCorrupt.
func (j *Journal) Load(
	ctx context.Context, only ...checkpoint.Name,
) (all []checkpoint.Checkpoint, err error) {
	kvs, err := j.kvs(ctx, only)
	if err != nil {
		return nil, answer(ctx, err)
	}
	var bad []error
	for _, kv := range kvs {
		cp, err := j.decode(kv)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		all = append(all, cp)
	}
	return all, errors.Join(bad...)
}

// kvs reads the keys of these tasks, or of all, sorted.
func (j *Journal) kvs(
	ctx context.Context, only []checkpoint.Name,
) (all []*mvccpb.KeyValue, err error) {
	for _, name := range only {
		if _, err := checkpoint.ParseName(string(name)); err != nil {
			return nil, err
		}
	}
	if len(only) == 0 {
		return j.list(ctx)
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(only))) {
		kv, _, err := j.read(ctx, name)
		if err != nil {
			return nil, err
		}
		if kv != nil {
			all = append(all, kv)
		}
	}
	return all, nil
}

// list reads the keys of all tasks, sorted.
func (j *Journal) list(ctx context.Context) (all []*mvccpb.KeyValue, err error) {
	dir := j.client.Checkpoints()
	for from := dir; ; {
		resp, err := cluster.Ask(ctx, j.client, "list the checkpoints", func(
			ctx context.Context,
		) (*clientv3.GetResponse, error) {
			return j.client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(dir)),
				clientv3.WithLimit(page))
		})
		if err != nil {
			return nil, err
		}
		for _, kv := range resp.Kvs {
			// Any other key is no checkpoint of ours.
			if _, err := checkpoint.ParseName(j.task(kv)); err == nil {
				all = append(all, kv)
			}
		}
		if !resp.More {
			return all, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// read reads a task's key, nil if there is none, and the revision at which it was read.
func (j *Journal) read(
	ctx context.Context, task checkpoint.Name,
) (kv *mvccpb.KeyValue, revision int64, err error) {
	resp, err := cluster.Ask(ctx, j.client, "read "+string(task), func(
		ctx context.Context,
	) (*clientv3.GetResponse, error) {
		return j.client.Get(ctx, j.key(task))
	})
	switch {
	case err != nil:
		return nil, 0, err
	case len(resp.Kvs) == 0:
		return nil, resp.Header.Revision, nil
	}
	return resp.Kvs[0], resp.Header.Revision, nil
}

// task returns the last part of a checkpoint's key.
func (j *Journal) task(kv *mvccpb.KeyValue) string {
	return strings.TrimPrefix(string(kv.Key), j.client.Checkpoints())
}

// decode reads a stored checkpoint. The version comes from the key, not from the JSON.
func (j *Journal) decode(kv *mvccpb.KeyValue) (cp checkpoint.Checkpoint, err error) {
	if err := json.Unmarshal(kv.Value, &cp); err != nil {
		return checkpoint.Checkpoint{}, corrupt(kv, err)
	}
	if string(cp.Task) != j.task(kv) {
		return checkpoint.Checkpoint{}, corrupt(kv,
			fmt.Errorf("it says that it is of task %.140q", cp.Task))
	}
	if _, err := fence.ParseResource(string(cp.Resource)); err != nil {
		return checkpoint.Checkpoint{}, corrupt(kv, err)
	}
	cp.Version = kv.Version
	j.owners.learn(cp.Task, owner{cp.Resource, kv.CreateRevision})
	return cp, nil
}

func corrupt(kv *mvccpb.KeyValue, why error) error {
	return fmt.Errorf("%w: version %d of %s in etcd is no checkpoint: %w; "+
		"nothing was changed: repair the key, or delete it to begin the task again",
		checkpoint.ErrCorrupt, kv.Version, kv.Key, why)
}
