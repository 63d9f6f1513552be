package zookeeper

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// leading is a claim that was found to lead, and its candidate's znode. One look is enough: younger
// candidates queue behind it, so the claim leads as long as the znode exists. Each call has to
// check that it does.
type leading struct {
	claim fence.Claim
	znode string // its candidate's path
}

// Confirm returns nil if the claim leads. It sends a transaction, which a server that has lost its
// ensemble cannot answer. Otherwise it returns a refusal: fence.ErrStale if the claim's candidate
// is gone for good; fence.ErrNotLeader if it waits behind an older one or was never enrolled;
// fence.ErrOtherIssuer. It returns ErrUnreachable if no server answered.
func (d *documents) Confirm(ctx context.Context, c fence.Claim) error {
	_, err := ensemble.Ask(ctx, d.client, func(
		ctx context.Context, s *ensemble.Session,
	) (string, error) {
		return d.confirm(ctx, s, c)
	})
	return err
}

// confirm returns the path of the claim's candidate if the claim leads. Later reads in this session
// see nothing older than this moment.
func (d *documents) confirm(
	ctx context.Context, s *ensemble.Session, c fence.Claim,
) (string, error) {
	znode, err := d.candidateOf(ctx, s, c)
	if err != nil {
		return "", err
	}
	_, err = ensemble.Retry(ctx, s, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(ensemble.CheckExists(znode))
	})
	if errors.Is(err, zk.ErrNoNode) {
		return "", d.gone(ctx, s, c)
	}
	return znode, d.client.Explain(znode, err)
}

// candidateOf returns the path of the claim's candidate. The claim led when it was first looked up.
func (d *documents) candidateOf(
	ctx context.Context, s *ensemble.Session, c fence.Claim,
) (string, error) {
	c.Holder = ""
	d.mu.Lock()
	seen := d.leading[c.Resource]
	d.mu.Unlock()
	if seen.claim == c {
		return seen.znode, nil
	}
	at, err := d.findLeading(ctx, s, c)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leading[c.Resource] = leading{c, at}
	return at, nil
}

// findLeading finds the candidate whose czxid is the claim's token, and refuses unless it leads.
func (d *documents) findLeading(
	ctx context.Context, s *ensemble.Session, claim fence.Claim,
) (string, error) {
	if _, err := fence.ParseResource(string(claim.Resource)); err != nil {
		return "", err
	}
	if err := s.Sync(ctx, d.client.Root()); err != nil {
		return "", err
	}
	issuer, err := election.ReadIssuer(ctx, s)
	if err != nil {
		return "", err
	}
	if issuer != claim.Issuer {
		return "", d.otherIssuer(claim, issuer)
	}
	dir := election.Dir(d.client.Root(), claim.Resource)
	names, changed, err := s.Children(ctx, dir)
	if err != nil {
		return "", err
	}
	entries, err := d.entries.Entries(ctx, s, dir, names)
	if err != nil {
		return "", err
	}
	switch i := slices.IndexFunc(entries, func(e election.Entry) bool {
		return e.Token == claim.Token
	}); {
	case i == 0:
		return path.Join(dir, entries[0].Name), nil
	case i < 0 && int64(claim.Token) <= changed:
		return "", stale(claim, entries)
	default:
		return "", notLeader(claim, entries, i)
	}
}

// stillThere refuses a claim whose candidate is gone.
func (d *documents) stillThere(
	ctx context.Context, s *ensemble.Session, c fence.Claim, znode string,
) error {
	stat, err := s.Stat(ctx, znode)
	if err == nil && stat == nil {
		return d.gone(ctx, s, c)
	}
	return d.client.Explain(znode, err)
}

// gone refuses a claim whose candidate has led and is gone. It looks the claim up again to find out
// why: a wiped ensemble is not a newer leader.
func (d *documents) gone(ctx context.Context, s *ensemble.Session, c fence.Claim) error {
	d.mu.Lock()
	delete(d.leading, c.Resource)
	d.mu.Unlock()
	if _, err := d.findLeading(ctx, s, c); err != nil {
		return err
	}
	return stale(c, nil)
}
