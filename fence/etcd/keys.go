package etcd

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// layout is where the keys are. The package documentation lists them.
type layout struct{ prefix string }

func (l layout) issuerKey() string { return l.prefix + "/issuer" }

// election is the prefix of the candidates' keys of a resource.
func (l layout) election(r fence.Resource) string {
	return l.prefix + "/elections/" + string(r) + "/"
}

// key returns the key of a document, or of a folder.
func (l layout) key(path string) string { return l.prefix + "/documents/" + path }

// candidateKey is a key for a new candidate. No other candidate ever has it.
func (l layout) candidateKey(r fence.Resource, lease clientv3.LeaseID) string {
	return fmt.Sprintf("%s%016x.%s", l.election(r), int64(lease), strings.ToLower(rand.Text()))
}

// holds compares a candidate's key with the one that was enrolled.
func holds(key string, token fence.Token) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(key), "=", int64(token))
}

// withToken finds the candidate with a token. There may be several: errShared.
func withToken(t fence.Token) []clientv3.OpOption {
	return []clientv3.OpOption{clientv3.WithPrefix(),
		clientv3.WithMinCreateRev(int64(t)), clientv3.WithMaxCreateRev(int64(t))}
}

// byToken lists an election, oldest token first.
func byToken(more ...clientv3.OpOption) []clientv3.OpOption {
	return append(more, clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
}

// oldest gets as much of an election as says who leads: two candidates, to notice that they share a
// token.
func (l layout) oldest(r fence.Resource, more ...clientv3.OpOption) clientv3.Op {
	return clientv3.OpGet(l.election(r),
		byToken(slices.Concat(more, []clientv3.OpOption{clientv3.WithLimit(2)})...)...)
}

// first returns the leader from the answer to oldest, and its key; or no candidate.
func first(resp *clientv3.TxnResponse, i int) (leader elector.Candidate, key string, err error) {
	kvs := resp.Responses[i].GetResponseRange().Kvs
	switch {
	case len(kvs) == 0:
		return elector.Candidate{}, "", nil
	case len(kvs) > 1 && kvs[0].CreateRevision == kvs[1].CreateRevision:
		return elector.Candidate{}, "", fmt.Errorf("%w: %s and %s; delete one of them",
			errShared, kvs[0].Key, kvs[1].Key)
	}
	return parse(kvs[0]), string(kvs[0].Key), nil
}

// value is what a candidate's key holds, for people and for Candidates.
type value struct {
	Holder string `json:"holder"`
	Ready  bool   `json:"ready"` // the leader has acknowledged
}

func (v value) String() string {
	b, _ := json.Marshal(v) // a string and a bool always encode
	return string(b)
}

// parse reads a key of an election. A value that we did not write still holds its place.
func parse(kv *mvccpb.KeyValue) elector.Candidate {
	var v value
	if err := json.Unmarshal(kv.Value, &v); err != nil {
		v = value{Holder: "(unreadable)"}
	}
	return elector.Candidate{
		Token: fence.Token(kv.CreateRevision), ID: path.Base(string(kv.Key)), Holder: v.Holder,
		Ready: v.Ready,
	}
}

// identityPrefix begins the value of the issuer's key.
const identityPrefix = "ringfence:"

// newIdentity returns a new value for the issuer's key.
func newIdentity() string { return identityPrefix + strings.ToLower(rand.Text()) }

// identity returns the value that the issuer's key has while claims of this issuer count, or "" if
// it is no issuer of an etcd cluster.
func identity(issuer fence.Issuer) string {
	rest, ours := strings.CutPrefix(string(issuer), "etcd:")
	_, id, ok := strings.Cut(rest, ":")
	if !ours || !ok || id == "" {
		return ""
	}
	return identityPrefix + id
}

// checkCluster returns an error unless the cluster that answered has the id that the issuer names.
func checkCluster(issuer fence.Issuer, h *pb.ResponseHeader) error {
	if strings.HasPrefix(string(issuer), fmt.Sprintf("etcd:%016x:", h.ClusterId)) {
		return nil
	}
	return fmt.Errorf("a cluster with the id %016x has answered, and the token comes from %s",
		h.ClusterId, issuer)
}

// parseIssuer makes an issuer of the cluster's id and the value of the issuer's key in answer i.
// The id alone is not enough: a cluster that was rebuilt with the same members and token has the
// same one.
func (l layout) parseIssuer(resp *clientv3.TxnResponse, i int) (fence.Issuer, error) {
	kvs := resp.Responses[i].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return "", fmt.Errorf("%w: key %s is missing", errNoIssuer, l.issuerKey())
	}
	id, ok := strings.CutPrefix(string(kvs[0].Value), identityPrefix)
	if !ok || id == "" {
		return "", fmt.Errorf("%w: Ringfence did not write the value of key %s: does another program "+
			"use this prefix?",
			errIssuer, l.issuerKey())
	}
	return fence.Issuer(fmt.Sprintf("etcd:%016x:%s", resp.Header.ClusterId, id)), nil
}

// readIssuer returns the issuer from answer i of a transaction. If the key is missing it creates
// one; of several that try, the first wins. It returns errNoIssuer then, so that the caller asks
// again. A cluster that lost the key is another issuer.
func (c *Coordinator) readIssuer(
	ctx context.Context, resp *clientv3.TxnResponse, i int,
) (fence.Issuer, error) {
	issuer, err := c.parseIssuer(resp, i)
	if errors.Is(err, errNoIssuer) {
		_, failed := c.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(c.issuerKey()), "=",
			0)).
			Then(clientv3.OpPut(c.issuerKey(), newIdentity())).Commit()
		err = errors.Join(err, failed)
	}
	return issuer, err
}
