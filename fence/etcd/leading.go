package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// leads makes transactions fail unless these claims lead. A claim led when it was first looked up,
// and leads as long as its candidate's key exists, under its issuer.
func (s *store) leads(ctx context.Context, claims []fence.Claim) (all []clientv3.Cmp, err error) {
	for _, claim := range claims {
		key, err := s.known.Candidate(claim, func() (string, error) { return s.find(ctx, claim) })
		if err != nil {
			return nil, err
		}
		all = append(all, holds(key, claim.Token),
			clientv3.Compare(clientv3.Value(s.issuerKey()), "=", identity(claim.Issuer)))
	}
	return all, nil
}

// refuse returns why one of these claims does not lead any more, or nil if all do.
func (s *store) refuse(ctx context.Context, claims []fence.Claim) error {
	for _, claim := range claims {
		s.known.Forget(claim.Resource)
		if _, err := s.find(ctx, claim); err != nil {
			return err
		}
	}
	return nil
}

// find finds the candidate that was created at the claim's token, and refuses unless it leads. It
// is one transaction of linearizable reads. fence.ErrStale: there is no such candidate, and there
// never will be, because the cluster has counted past the token.
func (s *store) find(ctx context.Context, c fence.Claim) (key string, err error) {
	resp, err := s.client.Txn(ctx).Then(
		clientv3.OpGet(s.issuerKey()), s.oldest(c.Resource),
		clientv3.OpGet(s.election(c.Resource), withToken(c.Token)...),
	).Commit()
	if err != nil {
		return "", err
	}
	issuer, err := s.readIssuer(ctx, resp, 0)
	if err != nil {
		return "", err
	}
	if issuer != c.Issuer {
		return "",
			refusal.OtherCoordinator(c, "etcd", s.prefix+" at "+s.frame.Where+" is "+string(issuer))
	}
	leader, key, err := first(resp, 1)
	if err != nil {
		return "", err
	}
	own := resp.Responses[2].GetResponseRange().Kvs
	switch leads := key != "" && leader.Token == c.Token; {
	case leads && c.Candidate != "" && leader.ID != c.Candidate:
		// the cluster was restored, and has given the number to another one
		return "", refusal.Gone(c, leader)
	case leads:
		return key, nil
	case len(own) > 0:
		return "", refusal.NotFirst(c, leader, parse(own[0]).Holder+" waits in the queue")
	case int64(c.Token) > resp.Header.Revision:
		return "", refusal.NotFirst(c, leader, "etcd has not issued this token yet")
	default:
		return "", refusal.Gone(c, leader)
	}
}
