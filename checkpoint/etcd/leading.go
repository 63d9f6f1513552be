package etcd

import (
	"context"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cluster"
)

// leading is a claim that was found to lead, and its candidate's key. One look is enough: younger
// candidates queue behind it, so the claim leads as long as the key exists. Each transaction has to
// check that it does.
type leading struct {
	claim fence.Claim
	key   string
}

// candidate returns the key of the claim's candidate. The claim led when it was first looked up.
func (j *Journal) candidate(ctx context.Context, c fence.Claim) (string, error) {
	c.Holder = ""
	j.mu.Lock()
	seen := j.leading[c.Resource]
	j.mu.Unlock()
	if seen.claim == c {
		return seen.key, nil
	}
	key, err := j.find(ctx, c)
	if err != nil {
		return "", err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.leading[c.Resource] = leading{c, key}
	return key, nil
}

// forget makes the next call look the leader up again.
func (j *Journal) forget(r fence.Resource) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.leading, r)
}

// find finds the candidate that was created at the claim's token, and refuses unless it leads. It
// is one transaction of linearizable reads. fence.ErrStale: there is no such candidate, and there
// never will be, because the cluster has counted past the token.
func (j *Journal) find(ctx context.Context, c fence.Claim) (key string, err error) {
	election := j.client.Election(c.Resource)
	// Two, to notice candidates that share a token.
	oldest := slices.Concat(cluster.ByToken, []clientv3.OpOption{clientv3.WithLimit(2)})
	resp, err := j.client.Txn(ctx).Then(
		clientv3.OpGet(j.client.IssuerKey()),
		clientv3.OpGet(election, oldest...),
		clientv3.OpGet(election, clientv3.WithPrefix(), clientv3.WithLimit(1),
			clientv3.WithMinCreateRev(int64(c.Token)), clientv3.WithMaxCreateRev(int64(c.Token))),
	).Commit()
	if err != nil {
		return "", err
	}
	issuer, err := j.client.ReadIssuer(ctx, resp, 0)
	if err != nil {
		return "", err
	}
	if issuer != c.Issuer {
		return "", j.otherIssuer(c, issuer)
	}
	first, err := cluster.First(resp.Responses[1].GetResponseRange().Kvs)
	if err != nil {
		return "", err
	}
	own := resp.Responses[2].GetResponseRange().Kvs
	switch {
	case first != nil && first.CreateRevision == int64(c.Token):
		return string(first.Key), nil
	case len(own) > 0:
		return "", notLeader(c, first, cluster.Candidate(own[0]).Holder+" waits in the queue")
	case int64(c.Token) > resp.Header.Revision:
		return "", notLeader(c, first, "etcd has not issued this token yet")
	default:
		return "", stale(c, first)
	}
}
