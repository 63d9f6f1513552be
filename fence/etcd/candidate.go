package etcd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/internal/campaign"
)

// candidate is a key in an election. Its token is the create revision.
type candidate struct {
	campaign.Standing
	s       *session
	overdue atomic.Bool // it is acknowledged, and not shown as ready
}

// Leave implements campaign.Candidate.
func (e *candidate) Leave() { e.s.Leave(e.Key) }

// exists compares the key with the one that was enrolled.
func (e *candidate) exists() clientv3.Cmp { return holds(e.Key, e.Token()) }

// Enrol implements campaign.Candidate: it creates the key.
func (e *candidate) Enrol(ctx context.Context) (fence.Token, error) {
	return ask(ctx, e.s.c, "enrol in the election of "+string(e.Resource), e.create)
}

// create returns the token. An earlier try whose reply was lost has created the key already: it is
// found, not made twice.
func (e *candidate) create(ctx context.Context) (fence.Token, error) {
	unready := value{Holder: e.Holder}.String()
	resp, err := e.s.c.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(e.Key), "=", 0)).
		Then(clientv3.OpPut(e.Key, unready, clientv3.WithLease(e.s.lease))).
		Else(clientv3.OpGet(e.Key)).
		Commit()
	switch {
	case err != nil:
		return 0, err
	case resp.Succeeded:
		return fence.Token(resp.Header.Revision), nil
	}
	return fence.Token(resp.Responses[0].GetResponseRange().Kvs[0].CreateRevision), nil
}

// Await implements campaign.Candidate. The lease was renewed less than half of its time ago then.
func (e *candidate) Await(ctx context.Context) (issuer fence.Issuer, renewed time.Time, err error) {
	for failures := 0; ; {
		at, err := ask(ctx, e.s.c, "read the election of "+string(e.Resource), e.position)
		if err != nil {
			return "", time.Time{}, err
		}
		if at.before == nil {
			// So that a change of documents under this term need not look it up.
			e.s.c.documents.known.Won(e.Claim(at.issuer), e.Key)
			renewed, err := e.s.Renewed(ctx)
			return at.issuer, renewed, err
		}
		switch err := e.wait(ctx, at); {
		case errors.Is(err, ErrUnreachable):
			failures++
			e.s.c.frame.Pause(ctx, "the candidate ahead", failures, err)
		case err != nil:
			return "", time.Time{}, err
		default:
			failures = 0
		}
	}
}

// position is what one linearizable transaction says of a candidate.
type position struct {
	before   *mvccpb.KeyValue // the nearest candidate ahead, or nil: it leads
	issuer   fence.Issuer
	revision int64
}

// position reads who is next ahead. errGone: the candidate is not in the election any more.
func (e *candidate) position(ctx context.Context) (position, error) {
	c := e.s.c
	nearest := clientv3.OpGet(c.election(e.Resource), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithMaxCreateRev(int64(e.Token())), clientv3.WithLimit(2),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend))
	resp, err := c.client.Txn(ctx).If(e.exists()).
		Then(nearest, clientv3.OpGet(c.issuerKey())).Commit()
	if err != nil {
		return position{}, err
	}
	if !resp.Succeeded {
		return position{}, errGone
	}
	at := position{revision: resp.Header.Revision}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		switch {
		case string(kv.Key) == e.Key:
		case kv.CreateRevision == int64(e.Token()):
			return position{}, fmt.Errorf("%w: %s and %s have %s; delete one of them",
				errShared, e.Key, kv.Key, e.Token())
		default:
			at.before = kv
		}
	}
	at.issuer, err = c.readIssuer(ctx, resp, 1)
	return at, err
}

// wait returns nil when it is time to read the position again: the candidate ahead was deleted, or
// a notice was lost. ErrUnreachable: a watch has failed. The candidates of a large election do not
// look for lost notices all at once, and do not read the election for that.
func (e *candidate) wait(ctx context.Context, at position) error {
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	ahead := e.s.c.deletion(ctx, string(at.before.Key), at.revision+1)
	own := e.s.c.deletion(ctx, e.Key, at.revision+1)
	for {
		again := time.NewTimer(e.s.Timeout/2 + rand.N(e.s.Timeout/2))
		select {
		case change := <-ahead:
			if err := failed(change); err != nil {
				again.Stop()
				return err
			}
			if e.s.c.woken != nil {
				e.s.c.woken(e.Resource, e.Holder)
			}
		case change := <-own:
			if err := failed(change); err != nil {
				again.Stop()
				return err
			}
		case <-again.C:
			if e.unchanged(ctx, at) {
				continue
			}
		case <-e.Gone():
			again.Stop()
			return e.Cause()
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		}
		again.Stop()
		return nil
	}
}

// unchanged reports whether the candidate and the one ahead of it still exist, in a linearizable
// read of a single key. The position is a read of the whole election.
func (e *candidate) unchanged(ctx context.Context, at position) bool {
	ctx, cancel := context.WithTimeout(ctx, e.s.c.frame.RequestTimeout()/2)
	defer cancel()
	before := holds(string(at.before.Key), fence.Token(at.before.CreateRevision))
	resp, err := e.s.c.client.Txn(ctx).If(e.exists(), before).
		Then(clientv3.OpGet(e.Key, clientv3.WithCountOnly())).Commit()
	return err == nil && resp.Succeeded
}

// failed returns why a watch has failed, if that is what its channel says.
func failed(change clientv3.WatchResponse) error {
	if change.Err() == nil && len(change.Events) > 0 {
		return nil
	}
	return errWatch(change.Err())
}

// deletion watches for the deletion of a key from a revision on. The channel also becomes ready
// when the watch fails: see failed.
func (c *Coordinator) deletion(ctx context.Context, key string, from int64) clientv3.WatchChan {
	return c.watch(ctx, key, clientv3.WithRev(from), clientv3.WithFilterPut())
}
