package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cluster"
)

// candidate is a key in an election.
type candidate struct {
	s        *session
	resource fence.Resource
	holder   string
	key      string
	token    fence.Token // its create revision; 0 until it is known; the session's mutex guards it

	mu     sync.Mutex
	keeper *fence.Keeper // once it has won
}

// leave gives the key up. The session deletes it as soon as etcd answers.
func (e *candidate) leave() {
	e.s.mu.Lock()
	delete(e.s.keys, e.key)
	e.s.mu.Unlock()
	e.s.hurry()
}

// confirm records that the candidate existed under its lease at some time after start.
func (e *candidate) confirm(start time.Time) { e.tell(func(k *fence.Keeper) { k.Confirm(start) }) }

// suspend records that etcd has not answered.
func (e *candidate) suspend() { e.tell((*fence.Keeper).Suspend) }

// lose records that the candidate is gone.
func (e *candidate) lose(cause error) { e.tell(func(k *fence.Keeper) { k.Lose(cause) }) }

// tell tells the keeper of the term, if the candidate has won one.
func (e *candidate) tell(what func(*fence.Keeper)) {
	e.mu.Lock()
	keeper := e.keeper
	e.mu.Unlock()
	if keeper != nil {
		what(keeper)
	}
}

// exists compares the key with the one that was enrolled.
func (e *candidate) exists() clientv3.Cmp { return cluster.Holds(e.key, e.token) }

// opsMost is how many operations a transaction may have: less than etcd's default of 128.
const opsMost = 100

// exist tells which of these candidates exist, in linearizable reads.
func (c *Coordinator) exist(ctx context.Context, all []*candidate) (map[string]bool, error) {
	there := make(map[string]bool, len(all))
	for len(all) > 0 {
		some := all[:min(len(all), opsMost)]
		all = all[len(some):]
		var gets []clientv3.Op
		for _, e := range some {
			gets = append(gets, clientv3.OpGet(e.key, clientv3.WithKeysOnly()))
		}
		resp, err := c.client.Txn(ctx).Then(gets...).Commit()
		if err != nil {
			return nil, err
		}
		for i, e := range some {
			kvs := resp.Responses[i].GetResponseRange().Kvs
			there[e.key] = len(kvs) == 1 && kvs[0].CreateRevision == int64(e.token)
		}
	}
	return there, nil
}

// await waits until the candidate leads, and returns the issuer as it was at that moment.
func (e *candidate) await(ctx context.Context) (fence.Issuer, error) {
	for {
		at, err := cluster.Ask(ctx, e.s.c.client, "read the election of "+string(e.resource), e.position)
		if err != nil {
			return "", err
		}
		if at.before == nil {
			return at.issuer, nil
		}
		if err := e.wait(ctx, at); err != nil {
			return "", err
		}
	}
}

// position is what one linearizable transaction says of a candidate.
type position struct {
	before   *mvccpb.KeyValue // the nearest candidate ahead, or nil: it leads
	issuer   fence.Issuer
	revision int64
}

// position reads who is next ahead. cluster.ErrGone: the candidate is not in the election any more.
func (e *candidate) position(ctx context.Context) (position, error) {
	c := e.s.c
	nearest := clientv3.OpGet(c.client.Election(e.resource), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithMaxCreateRev(int64(e.token)), clientv3.WithLimit(2),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend))
	resp, err := c.client.Txn(ctx).If(e.exists()).
		Then(nearest, clientv3.OpGet(c.client.IssuerKey())).Commit()
	if err != nil {
		return position{}, err
	}
	if !resp.Succeeded {
		return position{}, cluster.ErrGone
	}
	at := position{revision: resp.Header.Revision}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		switch {
		case string(kv.Key) == e.key:
		case kv.CreateRevision == int64(e.token):
			return position{}, fmt.Errorf("%w: %s and %s have %s; delete one of them",
				cluster.ErrShared, e.key, kv.Key, e.token)
		default:
			at.before = kv
		}
	}
	at.issuer, err = c.client.ReadIssuer(ctx, resp, 1)
	return at, err
}

// wait returns nil when it is time to read the position again: the candidate ahead was deleted, a
// watch failed, or, in case a notice was lost, a session timeout has passed. cluster.ErrGone: the own key
// was deleted.
func (e *candidate) wait(ctx context.Context, at position) error {
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	ahead := e.s.c.deletion(ctx, string(at.before.Key), at.revision+1)
	own := e.s.c.deletion(ctx, e.key, at.revision+1)
	defer cluster.Calm(ctx)()
	again := time.NewTimer(e.s.ttl)
	defer again.Stop()
	select {
	case <-ahead:
		if e.s.c.woken != nil {
			e.s.c.woken(e.resource, e.holder)
		}
	case <-own:
	case <-again.C:
	case <-e.s.over:
		return e.s.ended()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// deletion watches for the deletion of a key from a revision on. The channel also becomes ready
// when the watch fails, as after a compaction or when the member has lost its leader: read again
// then.
func (c *Coordinator) deletion(ctx context.Context, key string, from int64) clientv3.WatchChan {
	return c.client.Watch(ctx, key, clientv3.WithRev(from), clientv3.WithFilterPut())
}
