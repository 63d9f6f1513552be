package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cluster"
)

// Issuer implements fence.Observer.
func (c *Coordinator) Issuer(ctx context.Context) (fence.Issuer, error) {
	issuer, _, err := c.Leaders(ctx)
	return issuer, err
}

// RenewIssuer implements fence.IssuerRenewer.
func (c *Coordinator) RenewIssuer(ctx context.Context) (fence.Issuer, error) {
	if _, err := c.Issuer(ctx); err != nil { // do not overwrite a key of another program
		return "", err
	}
	key, id := c.client.IssuerKey(), cluster.NewIdentity()
	return cluster.Ask(ctx, c.client, "renew the issuer", func(ctx context.Context) (fence.Issuer, error) {
		resp, err := c.client.Txn(ctx).Then(clientv3.OpPut(key, id), clientv3.OpGet(key)).Commit()
		if err != nil {
			return "", err
		}
		return c.client.ParseIssuer(resp.Header, resp.Responses[1].GetResponseRange().Kvs)
	})
}
