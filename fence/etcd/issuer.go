package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
)

var (
	// errIssuer: the issuer's key was not written by us.
	errIssuer = errors.New("not an issuer")
	// errNoIssuer: there is no issuer's key.
	errNoIssuer = errors.New("there is no issuer")
)

// identityPrefix begins the value of the issuer's key.
const identityPrefix = "ringfence:"

func newIdentity() string { return identityPrefix + strings.ToLower(rand.Text()) }

// parseIssuer makes an issuer of the cluster's id and the value of the issuer's key. The id alone
// is not enough: a cluster that was rebuilt with the same members and token has the same one.
func (l layout) parseIssuer(h *pb.ResponseHeader, kvs []*mvccpb.KeyValue) (fence.Issuer, error) {
	if len(kvs) == 0 {
		return "", fmt.Errorf("%w: key %s is missing", errNoIssuer, l.issuer())
	}
	id, ok := strings.CutPrefix(string(kvs[0].Value), identityPrefix)
	if !ok || id == "" {
		return "", fmt.Errorf("%w: Ringfence did not write the value of key %s: "+
			"does another program use this prefix?", errIssuer, l.issuer())
	}
	return fence.Issuer(fmt.Sprintf("etcd:%016x:%s", h.ClusterId, id)), nil
}

// readIssuer returns the issuer from the answer of a transaction. If the key is missing it creates
// one; of several that try, the first wins. It returns errNoIssuer then, so that the caller asks
// again. A cluster that lost the key is another issuer.
func (c *Coordinator) readIssuer(
	ctx context.Context, resp *clientv3.TxnResponse, i int,
) (fence.Issuer, error) {
	key := c.layout.issuer()
	issuer, err := c.layout.parseIssuer(resp.Header, resp.Responses[i].GetResponseRange().Kvs)
	if errors.Is(err, errNoIssuer) {
		_, failed := c.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, newIdentity())).Commit()
		err = errors.Join(err, failed)
	}
	return issuer, err
}

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
	key, id := c.layout.issuer(), newIdentity()
	return ask(ctx, c, "renew the issuer", func(ctx context.Context) (fence.Issuer, error) {
		resp, err := c.client.Txn(ctx).Then(clientv3.OpPut(key, id), clientv3.OpGet(key)).Commit()
		if err != nil {
			return "", err
		}
		return c.layout.parseIssuer(resp.Header, resp.Responses[1].GetResponseRange().Kvs)
	})
}
