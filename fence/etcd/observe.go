package etcd

import (
	"context"
	"errors"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/backoff"
	"github.com/ringfence/ringfence/internal/cluster"
)

// Candidates implements fence.Observer.
func (c *Coordinator) Candidates(ctx context.Context, r fence.Resource) ([]fence.Candidate, error) {
	queue, _, err := c.queue(ctx, r)
	return queue, err
}

// queue reads an election, and the revision at which it was read.
func (c *Coordinator) queue(ctx context.Context, r fence.Resource) ([]fence.Candidate, int64, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, 0, err
	}
	resp, err := cluster.Ask(ctx, c.client, "list the candidates of "+string(r), func(ctx context.Context) (*clientv3.GetResponse, error) {
		return c.client.Get(ctx, c.client.Election(r), cluster.ByToken...)
	})
	if err != nil {
		return nil, 0, err
	}
	queue := make([]fence.Candidate, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		queue[i] = cluster.Candidate(kv)
		queue[i].Ready = queue[i].Ready && i == 0
	}
	return queue, resp.Header.Revision, nil
}

// Leaders implements fence.Observer: one transaction of linearizable reads. More resources than fit
// into a transaction are read as they were at the first one's revision.
func (c *Coordinator) Leaders(ctx context.Context, rs ...fence.Resource) (fence.Issuer, []fence.Candidate, error) {
	for _, r := range rs {
		if _, err := fence.ParseResource(string(r)); err != nil {
			return "", nil, err
		}
	}
	now, err := cluster.Ask(ctx, c.client, "ask who leads", func(ctx context.Context) (leadership, error) {
		return c.leaders(ctx, rs)
	})
	return now.issuer, now.leaders, err
}

// leadership is the issuer and the leaders at one revision.
type leadership struct {
	issuer  fence.Issuer
	leaders []fence.Candidate
}

func (c *Coordinator) leaders(ctx context.Context, rs []fence.Resource) (now leadership, err error) {
	var at []clientv3.OpOption // the revision, once it is known
	for first := true; first || len(rs) > 0; first = false {
		some := rs[:min(len(rs), opsMost)]
		rs = rs[len(some):]
		gets := []clientv3.Op{clientv3.OpGet(c.client.IssuerKey(), at...)}
		for _, r := range some {
			// Two, to notice candidates that share a token.
			gets = append(gets, clientv3.OpGet(c.client.Election(r), append(slices.Concat(cluster.ByToken, at), clientv3.WithLimit(2))...))
		}
		resp, err := c.client.Txn(ctx).Then(gets...).Commit()
		if err != nil {
			return leadership{}, err
		}
		if first {
			at = []clientv3.OpOption{clientv3.WithRev(resp.Header.Revision)}
		}
		if now.issuer, err = c.client.ReadIssuer(ctx, resp, 0); err != nil {
			return leadership{}, err
		}
		for i := range some {
			first, err := cluster.First(resp.Responses[i+1].GetResponseRange().Kvs)
			if err != nil {
				return leadership{}, err
			}
			var leader fence.Candidate
			if first != nil {
				leader = cluster.Candidate(first)
			}
			now.leaders = append(now.leaders, leader)
		}
	}
	return now, nil
}

// Depose implements fence.Elector.
func (c *Coordinator) Depose(ctx context.Context, r fence.Resource, t fence.Token) (bool, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return false, err
	}
	if t <= 0 {
		return false, nil
	}
	sent := false // a delete; if it has no reply and the key is gone, it was ours
	return cluster.Ask(ctx, c.client, "depose "+t.String(), func(ctx context.Context) (bool, error) {
		found, err := c.client.Get(ctx, c.client.Election(r), clientv3.WithPrefix(), clientv3.WithKeysOnly(),
			clientv3.WithMinCreateRev(int64(t)), clientv3.WithMaxCreateRev(int64(t)))
		if err != nil {
			return false, err
		}
		for _, kv := range found.Kvs {
			sent = true
			_, err := c.client.Txn(ctx).
				If(clientv3.Compare(clientv3.CreateRevision(string(kv.Key)), "=", kv.CreateRevision)).
				Then(clientv3.OpDelete(string(kv.Key))).Commit()
			if err != nil {
				return false, err
			}
		}
		return sent, nil
	})
}

// Watch implements fence.Observer.
func (c *Coordinator) Watch(ctx context.Context, r fence.Resource, each func([]fence.Candidate) error) error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.work.Done()
	ctx, stop := c.client.WithEnd(ctx)
	defer stop()
	var told []fence.Candidate
	for first, failures := true, 0; ctx.Err() == nil; {
		queue, revision, err := c.queue(ctx, r)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrUnreachable):
			failures++
			c.log.Warn("cannot watch the election", "resource", r, "error", err)
			backoff.Pause(ctx, backoff.After(failures, backoff.Least, backoff.Most))
		case err != nil:
			return err
		default:
			if first || !slices.Equal(queue, told) {
				if err := each(slices.Clone(queue)); err != nil {
					return err
				}
			}
			first, told, failures = false, queue, 0
			c.change(ctx, r, revision+1)
		}
	}
	return context.Cause(ctx)
}

// change waits until an election may have changed: after a change from a revision on, when the
// watch fails, or after a session timeout in case a notice was lost.
func (c *Coordinator) change(ctx context.Context, r fence.Resource, from int64) {
	ctx, stop := context.WithTimeout(clientv3.WithRequireLeader(ctx), c.client.RequestTimeout())
	defer stop()
	defer cluster.Calm(ctx)()
	<-c.client.Watch(ctx, c.client.Election(r), clientv3.WithPrefix(), clientv3.WithRev(from))
}
