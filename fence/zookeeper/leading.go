package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
	"github.com/ringfence/ringfence/internal/refusal"
)

// candidate returns the path of the claim's candidate. The claim led when it was first looked up. Each
// change has to check that the candidate's znode still exists (ensemble.CheckExists).
func (s *store) candidate(ctx context.Context, session *ensemble.Session, c fence.Claim) (string, error) {
	return s.known.Candidate(c, func() (string, error) { return s.find(ctx, session, c) })
}

// confirm returns the path of the claim's candidate if the claim leads. It sends a transaction,
// which a server that has lost its ensemble cannot answer. Later reads in this session see nothing
// older than this moment. Otherwise it returns a refusal: fence.ErrStale if the claim's candidate is
// gone for good; fence.ErrNotLeader if it waits behind an older one or was never enrolled;
// fence.ErrOtherIssuer.
func (s *store) confirm(ctx context.Context, session *ensemble.Session, c fence.Claim) (string, error) {
	znode, err := s.candidate(ctx, session, c)
	if err != nil {
		return "", err
	}
	err = session.Multi(ctx, ensemble.CheckExists(znode))
	if errors.Is(err, zk.ErrNoNode) {
		return "", s.gone(ctx, session, c)
	}
	return znode, s.client.Explain(znode, err)
}

// find finds the candidate whose czxid is the claim's token, and refuses unless it leads.
func (s *store) find(ctx context.Context, session *ensemble.Session, claim fence.Claim) (string, error) {
	if err := session.Sync(ctx); err != nil {
		return "", err
	}
	issuer, err := readIssuer(ctx, session)
	if err != nil {
		return "", err
	}
	if issuer != claim.Issuer {
		return "", refusal.OtherCoordinator(claim, "ZooKeeper",
			s.client.Path+" at "+s.client.Where+" is "+string(issuer))
	}
	dir := s.dir(claim.Resource)
	names, changed, err := session.Children(ctx, dir)
	if err != nil {
		return "", err
	}
	entries, err := s.entries.entries(ctx, session, dir, names)
	if err != nil {
		return "", err
	}
	var leader fence.Candidate
	if len(entries) > 0 {
		leader = entries[0].candidate()
	}
	switch i := slices.IndexFunc(entries, func(e entry) bool { return e.token == claim.Token }); {
	case i == 0 && claim.Candidate != "" && leader.ID != claim.Candidate:
		return "", refusal.Gone(claim, leader) // the ensemble was restored, and has given the number to another one
	case i == 0:
		return path.Join(dir, entries[0].name), nil
	case i > 0:
		return "", refusal.NotFirst(claim, leader,
			fmt.Sprintf("%s waits in place %d of the queue", entries[i].holder, i+1))
	case int64(claim.Token) <= changed:
		return "", refusal.Gone(claim, leader)
	default:
		return "", refusal.NotFirst(claim, leader, "it was never enrolled in this election")
	}
}

// gone refuses a claim whose candidate has led and is gone. It looks the claim up again to find out
// why: a wiped ensemble is not a newer leader.
func (s *store) gone(ctx context.Context, session *ensemble.Session, c fence.Claim) error {
	s.known.Forget(c.Resource)
	if _, err := s.find(ctx, session, c); err != nil {
		return err
	}
	return refusal.Gone(c, fence.Candidate{})
}
