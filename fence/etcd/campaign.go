package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cluster"
)

// Campaign implements fence.Elector. While no member answers it keeps trying; if ctx ends then, the
// error has the last failure.
func (c *Coordinator) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	if err := fence.CheckHolder(holder); err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	defer c.work.Done()
	ctx, stop := c.client.WithEnd(ctx)
	defer stop()
	return c.campaigns.Campaign(ctx, r, holder)
}

// Enrol implements campaign.Candidate: it creates the key.
func (e *candidate) Enrol(ctx context.Context) (fence.Token, error) {
	return cluster.Ask(ctx, e.s.c.client, "enrol in the election of "+string(e.Resource), e.create)
}

// create returns the token. An earlier try whose reply was lost has created the key already: it is
// found, not made twice.
func (e *candidate) create(ctx context.Context) (fence.Token, error) {
	value := cluster.Value{Holder: e.Holder}.String()
	resp, err := e.s.c.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(e.Key), "=", 0)).
		Then(clientv3.OpPut(e.Key, value, clientv3.WithLease(e.s.lease))).
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
