package cluster

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/claims"
)

// Leading finds the candidates of claims that lead, and remembers them. Each transaction has to check
// that the candidate's key still exists (Holds).
type Leading struct {
	claims.Known
	client *Client
}

// NewLeading returns a Leading that knows no claims.
func NewLeading(c *Client) *Leading { return &Leading{client: c} }

// LookUp is Candidate, repeated until a member answers (Ask).
func (l *Leading) LookUp(ctx context.Context, c fence.Claim) (string, error) {
	return Ask(ctx, l.client, "look up "+c.String(), func(ctx context.Context) (string, error) {
		return l.Candidate(ctx, c)
	})
}

// Candidate returns the key of the claim's candidate. The claim led when it was first looked up.
func (l *Leading) Candidate(ctx context.Context, c fence.Claim) (string, error) {
	if key, known := l.Known.Candidate(c); known {
		return key, nil
	}
	key, err := l.Find(ctx, c)
	if err != nil {
		return "", err
	}
	l.Won(c, key)
	return key, nil
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
	switch leads := first != nil && first.CreateRevision == int64(c.Token); {
	case leads && c.Candidate != "" && Candidate(first).ID != c.Candidate:
		return "", stale(c, first) // the cluster was restored, and has given the number to another one
	case leads:
		return string(first.Key), nil
	case len(own) > 0:
		return "", notLeader(c, first, Candidate(own[0]).Holder+" waits in the queue")
	case int64(c.Token) > resp.Header.Revision:
		return "", notLeader(c, first, "etcd has not issued this token yet")
	default:
		return "", stale(c, first)
	}
}
