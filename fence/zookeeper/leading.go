package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
	"github.com/ringfence/ringfence/internal/refusal"
)

// standing is what a claim rests on while it leads: its candidate, and the znode of its issuer.
type standing struct {
	candidate string // path
	issuer    identity
}

// checks make a multi fail unless the claim still leads: first the issuer, then the candidate.
func (s *store) checks(at standing) []any {
	return []any{
		&zk.CheckVersionRequest{Path: issuerPath(s.client), Version: at.issuer.version},
		ensemble.CheckExists(at.candidate),
	}
}

// standing returns what a claim rests on. The claim led when it was first looked up. Each change
// has to check that it still does (checks).
func (s *store) standing(
	ctx context.Context, session *ensemble.Session, c fence.Claim,
) (at standing, err error) {
	at.candidate, err = s.known.Candidate(c, func() (string, error) { return s.find(ctx, session, c) })
	if err != nil {
		return standing{}, err
	}
	for {
		seen, err := s.cached(ctx, session, nil)
		if err != nil {
			return standing{}, err
		}
		at.issuer = seen.issuer
		if at.issuer.issuer == c.Issuer && !fired(at.issuer.watch) {
			return at, nil
		}
		if err := s.lookAgain(ctx, session, c, at.issuer); err != nil {
			return standing{}, err
		}
	}
}

// confirm returns what the claim rests on if it leads. It sends a transaction, which a server that
// has lost its ensemble cannot answer. Later reads in this session see nothing older than this
// moment. Otherwise it returns a refusal: fence.ErrStale if the claim's candidate is gone for good;
// fence.ErrNotLeader if it waits behind an older one or was never enrolled; fence.ErrOtherIssuer.
func (s *store) confirm(
	ctx context.Context, session *ensemble.Session, c fence.Claim,
) (standing, error) {
	for {
		at, err := s.standing(ctx, session, c)
		if err != nil {
			return standing{}, err
		}
		err = session.Multi(ctx, s.checks(at)...)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return standing{}, s.gone(ctx, session, c)
		case err != nil && !errors.Is(err, zk.ErrBadVersion):
			return standing{}, s.client.Explain(at.candidate, err)
		case err == nil && !fired(at.issuer.watch):
			return at, nil
		}
		if err := s.lookAgain(ctx, session, c, at.issuer); err != nil {
			return standing{}, err
		}
	}
}

// stillLeads refuses a claim that was confirmed and does not lead any more.
func (s *store) stillLeads(
	ctx context.Context, session *ensemble.Session, c fence.Claim, at standing,
) error {
	if fired(at.issuer.watch) {
		return s.lookAgain(ctx, session, c, at.issuer)
	}
	stat, err := session.Stat(ctx, at.candidate)
	if err == nil && stat == nil {
		return s.gone(ctx, session, c)
	}
	return s.client.Explain(at.candidate, err)
}

// lookAgain refuses a claim whose issuer is no longer the one that this session has seen. It
// returns nil if the claim leads now; then what was seen was out of date.
func (s *store) lookAgain(
	ctx context.Context, session *ensemble.Session, c fence.Claim, seen identity,
) error {
	s.invalidate(session, leadership{issuer: seen})
	s.known.Forget(c.Resource)
	_, err := s.find(ctx, session, c)
	return err
}

// find finds the candidate whose czxid is the claim's token, and refuses unless it leads.
func (s *store) find(
	ctx context.Context, session *ensemble.Session, claim fence.Claim,
) (string, error) {
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
	var leader elector.Candidate
	if len(entries) > 0 {
		leader = entries[0].candidate()
	}
	switch i := slices.IndexFunc(entries, func(e entry) bool { return e.token == claim.Token }); {
	case i == 0 && claim.Candidate != "" && leader.ID != claim.Candidate:
		// the ensemble was restored, and has given the number to another one
		return "", refusal.Gone(claim, leader)
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
	return refusal.Gone(c, elector.Candidate{})
}
