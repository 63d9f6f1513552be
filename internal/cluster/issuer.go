package cluster

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
	// ErrIssuer: Ringfence did not write the issuer's key.
	ErrIssuer = errors.New("not an issuer")
	// ErrNoIssuer: there is no issuer's key.
	ErrNoIssuer = errors.New("there is no issuer")
)

// identityPrefix begins the value of the issuer's key.
const identityPrefix = "ringfence:"

// NewIdentity returns a new value for the issuer's key.
func NewIdentity() string { return identityPrefix + strings.ToLower(rand.Text()) }

// Identity returns the value that the issuer's key has while claims of this issuer count, or "" if
// it is no issuer of an etcd cluster.
func Identity(issuer fence.Issuer) string {
	rest, ours := strings.CutPrefix(string(issuer), "etcd:")
	_, id, ok := strings.Cut(rest, ":")
	if !ours || !ok || id == "" {
		return ""
	}
	return identityPrefix + id
}

// CheckCluster returns an error unless the cluster that answered has the id that the issuer names.
func CheckCluster(issuer fence.Issuer, h *pb.ResponseHeader) error {
	if strings.HasPrefix(string(issuer), fmt.Sprintf("etcd:%016x:", h.ClusterId)) {
		return nil
	}
	return fmt.Errorf("a cluster with the id %016x has answered, and the token comes from %s", h.ClusterId, issuer)
}

// ParseIssuer makes an issuer of the cluster's id and the value of the issuer's key. The id alone
// is not enough: a cluster that was rebuilt with the same members and token has the same one.
func (l Layout) ParseIssuer(h *pb.ResponseHeader, kvs []*mvccpb.KeyValue) (fence.Issuer, error) {
	if len(kvs) == 0 {
		return "", fmt.Errorf("%w: key %s is missing", ErrNoIssuer, l.IssuerKey())
	}
	id, ok := strings.CutPrefix(string(kvs[0].Value), identityPrefix)
	if !ok || id == "" {
		return "", fmt.Errorf("%w: Ringfence did not write the value of key %s: does another program use this prefix?",
			ErrIssuer, l.IssuerKey())
	}
	return fence.Issuer(fmt.Sprintf("etcd:%016x:%s", h.ClusterId, id)), nil
}

// ReadIssuer returns the issuer from answer i of a transaction. If the key is missing it creates
// one; of several that try, the first wins. It returns ErrNoIssuer then, so that the caller asks
// again. A cluster that lost the key is another issuer.
func (c *Client) ReadIssuer(
	ctx context.Context, resp *clientv3.TxnResponse, i int,
) (fence.Issuer, error) {
	key := c.IssuerKey()
	issuer, err := c.ParseIssuer(resp.Header, resp.Responses[i].GetResponseRange().Kvs)
	if errors.Is(err, ErrNoIssuer) {
		_, failed := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
			Then(clientv3.OpPut(key, NewIdentity())).Commit()
		err = errors.Join(err, failed)
	}
	return issuer, err
}
