package etcd

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/internal/campaign"
)

// Issuer implements elector.Observer.
func (c *Coordinator) Issuer(ctx context.Context) (fence.Issuer, error) {
	issuer, _, err := c.Leaders(ctx)
	return issuer, err
}

// RenewIssuer implements elector.IssuerRenewer.
func (c *Coordinator) RenewIssuer(ctx context.Context) (fence.Issuer, error) {
	if _, err := c.Issuer(ctx); err != nil { // do not overwrite a key of another program
		return "", err
	}
	key, id := c.issuerKey(), newIdentity()
	return ask(ctx, c, "renew the issuer", func(ctx context.Context) (fence.Issuer, error) {
		resp, err := c.client.Txn(ctx).Then(clientv3.OpPut(key, id), clientv3.OpGet(key)).Commit()
		if err != nil {
			return "", err
		}
		return c.parseIssuer(resp, 1)
	})
}

// Candidates implements elector.Observer.
func (c *Coordinator) Candidates(
	ctx context.Context, r fence.Resource,
) ([]elector.Candidate, error) {
	queue, _, err := c.queue(ctx, r)
	return queue, err
}

// queue reads an election, and the revision at which it was read.
func (c *Coordinator) queue(
	ctx context.Context, r fence.Resource,
) ([]elector.Candidate, int64, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, 0, err
	}
	resp, err := ask(ctx, c, "list the candidates of "+string(r),
		func(ctx context.Context) (*clientv3.GetResponse, error) {
			return c.client.Get(ctx, c.election(r), byToken()...)
		})
	if err != nil {
		return nil, 0, err
	}
	queue := make([]elector.Candidate, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		queue[i] = parse(kv)
		queue[i].Ready = queue[i].Ready && i == 0
	}
	return queue, resp.Header.Revision, nil
}

// Leaders implements elector.Observer: one transaction of linearizable reads. More resources than
// fit into a transaction are read as they were at the first one's revision.
func (c *Coordinator) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (fence.Issuer, []elector.Candidate, error) {
	for _, r := range rs {
		if _, err := fence.ParseResource(string(r)); err != nil {
			return "", nil, err
		}
	}
	now, err := ask(ctx, c, "ask who leads", func(ctx context.Context) (leadership, error) {
		return c.leaders(ctx, rs)
	})
	return now.issuer, now.leaders, err
}

// leadership is the issuer and the leaders at one revision.
type leadership struct {
	issuer  fence.Issuer
	leaders []elector.Candidate
}

func (c *Coordinator) leaders(
	ctx context.Context, rs []fence.Resource,
) (now leadership, err error) {
	var at []clientv3.OpOption // the revision, once it is known
	for at == nil || len(rs) > 0 {
		some := rs[:min(len(rs), maxOps)]
		rs = rs[len(some):]
		gets := []clientv3.Op{clientv3.OpGet(c.issuerKey(), at...)}
		for _, r := range some {
			gets = append(gets, c.oldest(r, at...))
		}
		resp, err := c.client.Txn(ctx).Then(gets...).Commit()
		if err != nil {
			return leadership{}, err
		}
		if at == nil {
			at = []clientv3.OpOption{clientv3.WithRev(resp.Header.Revision)}
		}
		if now.issuer, err = c.readIssuer(ctx, resp, 0); err != nil {
			return leadership{}, err
		}
		for i := range some {
			leader, _, err := first(resp, i+1)
			if err != nil {
				return leadership{}, err
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
	return ask(ctx, c, "depose "+t.String(), func(ctx context.Context) (bool, error) {
		found, err := c.client.Get(ctx, c.election(r), withToken(t)...)
		if err != nil {
			return false, err
		}
		for _, kv := range found.Kvs {
			sent = true
			_, err := c.client.Txn(ctx).
				If(holds(string(kv.Key), t)).
				Then(clientv3.OpDelete(string(kv.Key))).Commit()
			if err != nil {
				return false, err
			}
		}
		return sent, nil
	})
}

// Watch implements elector.Observer.
func (c *Coordinator) Watch(
	ctx context.Context, r fence.Resource, each func([]elector.Candidate) error,
) error {
	tell := campaign.OnOther(each)
	return c.frame.Repeat(ctx, "the election of "+string(r), func(ctx context.Context) error {
		queue, revision, err := c.queue(ctx, r)
		if err == nil {
			err = tell(queue)
		}
		if err != nil {
			return err
		}
		return c.follow(ctx, c.election(r), revision+1, nil, clientv3.WithPrefix())
	})
}

// follow calls each with the changes of a key, or of a prefix, from a revision on. Without each it
// returns at the first change, and after a while in any case, in case a notice was lost. A watch
// that ends by itself is an error, ErrUnreachable: it was compacted, or the member has lost its
// leader, or etcd refuses it.
func (c *Coordinator) follow(
	ctx context.Context, key string, from int64, each func([]*clientv3.Event) error,
	o ...clientv3.OpOption,
) error {
	ctx, stop := context.WithTimeout(clientv3.WithRequireLeader(ctx), c.frame.RequestTimeout())
	defer stop()
	var last error
	for change := range c.watch(ctx, key, append(o, clientv3.WithRev(from))...) {
		if last = change.Err(); last != nil {
			break
		}
		if each == nil {
			return nil
		}
		if len(change.Events) == 0 {
			continue
		}
		if err := each(change.Events); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return errWatch(last)
}

// errWatch says that a watch has ended by itself. The library may give no reason.
func errWatch(why error) error {
	if why == nil {
		return fmt.Errorf("%w: the watch has ended", ErrUnreachable)
	}
	return fmt.Errorf("%w: the watch has ended: %w", ErrUnreachable, why)
}
