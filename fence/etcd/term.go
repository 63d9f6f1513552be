package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// Watch implements campaign.Candidate: it notices at once that the key is deleted.
func (e *candidate) Watch(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		gone, err := e.deleted(ctx)
		if time.Since(began) > backoff.Max {
			failures = 0
		}
		switch {
		case gone:
			e.Lose(e.s.whyGone(ctx))
		case err != nil && ctx.Err() == nil:
			failures++
			e.s.c.frame.Pause(ctx, "the own candidate", failures, err)
		}
	}
}

// deleted waits until the key may have been deleted, or ctx ends, and returns whether the key is
// gone. It returns an error when nobody answered, or the watch has failed.
func (e *candidate) deleted(ctx context.Context) (bool, error) {
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	at, err := ask(ctx, e.s.c, "read the own candidate", e.position)
	if err != nil {
		return errors.Is(err, errGone), err
	}
	select {
	case change := <-e.s.c.deletion(ctx, e.Key, at.revision+1):
		return false, failed(change)
	case <-ctx.Done():
		return false, nil
	}
}

// Acknowledge implements elector.Backing. While etcd has no space left, it only makes sure that the
// term exists: whoever gives up a term then cannot enrol again. The session publishes it later.
func (e *candidate) Acknowledge(ctx context.Context) error {
	published, err := ask(ctx, e.s.c, "acknowledge the term", e.publish)
	switch {
	case errors.Is(err, errGone):
		return fence.ErrDeposed
	case err == nil && !published:
		e.overdue.Store(true)
		e.s.c.frame.Log.Warn("this leader works, but is not shown as ready",
			"resource", e.Resource, "token", e.Token(), "error", errNoSpace)
	}
	return err
}

// publish shows the leader as ready, unless etcd has no space left. It returns errGone if the
// term is over.
func (e *candidate) publish(ctx context.Context) (published bool, err error) {
	ready := value{Holder: e.Holder, Ready: true}.String()
	resp, err := e.s.c.client.Txn(ctx).If(e.exists()).
		Then(clientv3.OpPut(e.Key, ready, clientv3.WithIgnoreLease())).Commit()
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		_, err = e.position(ctx)
		return false, err
	case err == nil && !resp.Succeeded:
		err = errGone
	}
	return err == nil, err
}

// Release implements elector.Backing: it deletes the candidate's key, which no other candidate ever
// has. If etcd does not answer, the session deletes the key as soon as it does, or the lease runs
// out.
func (e *candidate) Release(ctx context.Context) error {
	defer e.Leave()
	if e.s.Ended() != nil {
		return nil // the key is gone with the lease, or will be before anybody leads
	}
	_, err := ask(ctx, e.s.c, "resign",
		func(ctx context.Context) (*clientv3.DeleteResponse, error) {
			return e.s.c.client.Delete(ctx, e.Key)
		})
	if err == nil || errors.Is(err, ErrClosed) {
		return nil // Close revokes the lease
	}
	return fmt.Errorf("the candidate of %s=%s may stay until etcd answers or its lease runs out: %w",
		e.Resource, e.Token(), err)
}
