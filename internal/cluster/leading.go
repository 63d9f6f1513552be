package cluster

import (
	"context"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
)

// leadingMost bounds a cache of claims. A claim that is not in it costs a read.
const leadingMost = 10_000

// Leading finds the candidates of claims that lead, and remembers the last one of each resource. One
// look is enough: younger candidates queue behind a leader, so its claim leads as long as its key
// exists. Each transaction has to check that it does (Holds).
type Leading struct {
	client *Client

	mu   sync.Mutex
	seen map[fence.Resource]leader
}

// leader is a claim that was found to lead, and its candidate's key.
type leader struct {
	claim fence.Claim
	key   string
}

// NewLeading returns an empty Leading.
func NewLeading(c *Client) *Leading { return &Leading{client: c, seen: map[fence.Resource]leader{}} }

// Candidate returns the key of the claim's candidate. The claim led when it was first looked up.
func (l *Leading) Candidate(ctx context.Context, c fence.Claim) (string, error) {
	c.Holder = ""
	l.mu.Lock()
	seen := l.seen[c.Resource]
	l.mu.Unlock()
	if seen.claim == c {
		return seen.key, nil
	}
	key, err := l.Find(ctx, c)
	if err != nil {
		return "", err
	}
	l.Won(c, key)
	return key, nil
}

// Won tells that a claim was found to lead, with its candidate's key, by a campaign of this process.
func (l *Leading) Won(c fence.Claim, key string) {
	c.Holder = ""
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) >= leadingMost {
		clear(l.seen)
	}
	l.seen[c.Resource] = leader{c, key}
}

// Forget makes the next call look the leader up again.
func (l *Leading) Forget(r fence.Resource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, r)
}

// Conditions make a transaction fail unless the claim, whose candidate has this key, still leads.
func (l *Leading) Conditions(c fence.Claim, key string) []clientv3.Cmp {
	return []clientv3.Cmp{
		Holds(key, c.Token),
		clientv3.Compare(clientv3.Value(l.client.IssuerKey()), "=", Identity(c.Issuer)),
	}
}

// Find finds the candidate that was created at the claim's token, and refuses unless it leads. It
// is one transaction of linearizable reads. fence.ErrStale: there is no such candidate, and there
// never will be, because the cluster has counted past the token.
func (l *Leading) Find(ctx context.Context, c fence.Claim) (key string, err error) {
	election := l.client.Election(c.Resource)
	// Two, to notice candidates that share a token.
	oldest := slices.Concat(ByToken, []clientv3.OpOption{clientv3.WithLimit(2)})
	resp, err := l.client.Txn(ctx).Then(
		clientv3.OpGet(l.client.IssuerKey()),
		clientv3.OpGet(election, oldest...),
		clientv3.OpGet(election, clientv3.WithPrefix(), clientv3.WithLimit(1),
			clientv3.WithMinCreateRev(int64(c.Token)), clientv3.WithMaxCreateRev(int64(c.Token))),
	).Commit()
	if err != nil {
		return "", err
	}
	issuer, err := l.client.ReadIssuer(ctx, resp, 0)
	if err != nil {
		return "", err
	}
	if issuer != c.Issuer {
		return "", l.client.otherIssuer(c, issuer)
	}
	first, err := First(resp.Responses[1].GetResponseRange().Kvs)
	if err != nil {
		return "", err
	}
	own := resp.Responses[2].GetResponseRange().Kvs
	switch {
	case first != nil && first.CreateRevision == int64(c.Token):
		return string(first.Key), nil
	case len(own) > 0:
		return "", notLeader(c, first, Candidate(own[0]).Holder+" waits in the queue")
	case int64(c.Token) > resp.Header.Revision:
		return "", notLeader(c, first, "etcd has not issued this token yet")
	default:
		return "", stale(c, first)
	}
}
