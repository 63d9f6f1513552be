package election

import (
	"context"
	"errors"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/claims"
	"github.com/ringfence/ringfence/internal/ensemble"
)

// Leading finds the candidates of claims that lead, and remembers them. Each change has to check that
// the candidate's znode still exists (ensemble.CheckExists).
type Leading struct {
	claims.Known
	client  *ensemble.Client
	entries Cache
}

// NewLeading returns a Leading that knows no claims.
func NewLeading(c *ensemble.Client) *Leading { return &Leading{client: c} }

// Candidate returns the path of the claim's candidate. The claim led when it was first looked up.
func (l *Leading) Candidate(
	ctx context.Context, s *ensemble.Session, c fence.Claim,
) (string, error) {
	if znode, known := l.Known.Candidate(c); known {
		return znode, nil
	}
	znode, err := l.find(ctx, s, c)
	if err != nil {
		return "", err
	}
	l.Won(c, znode)
	return znode, nil
}

// Confirm returns the path of the claim's candidate if the claim leads. It sends a transaction,
// which a server that has lost its ensemble cannot answer. Later reads in this session see nothing
// older than this moment. Otherwise it returns a refusal: fence.ErrStale if the claim's candidate is
// gone for good; fence.ErrNotLeader if it waits behind an older one or was never enrolled;
// fence.ErrOtherIssuer.
func (l *Leading) Confirm(
	ctx context.Context, s *ensemble.Session, c fence.Claim,
) (string, error) {
	znode, err := l.Candidate(ctx, s, c)
	if err != nil {
		return "", err
	}
	_, err = ensemble.Retry(ctx, s, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(ensemble.CheckExists(znode))
	})
	if errors.Is(err, zk.ErrNoNode) {
		return "", l.Gone(ctx, s, c)
	}
	return znode, l.client.Explain(znode, err)
}

// find finds the candidate whose czxid is the claim's token, and refuses unless it leads.
func (l *Leading) find(
	ctx context.Context, s *ensemble.Session, claim fence.Claim,
) (string, error) {
	if _, err := fence.ParseResource(string(claim.Resource)); err != nil {
		return "", err
	}
	if err := s.Sync(ctx, l.client.Root()); err != nil {
		return "", err
	}
	issuer, err := ReadIssuer(ctx, s)
	if err != nil {
		return "", err
	}
	if issuer != claim.Issuer {
		return "", otherIssuer(l.client, claim, issuer)
	}
	dir := Dir(l.client.Root(), claim.Resource)
	names, changed, err := s.Children(ctx, dir)
	if err != nil {
		return "", err
	}
	entries, err := l.entries.Entries(ctx, s, dir, names)
	if err != nil {
		return "", err
	}
	switch i := slices.IndexFunc(entries, func(e Entry) bool {
		return e.Token == claim.Token
	}); {
	case i == 0 && claim.Candidate != "" && entries[i].ID() != claim.Candidate:
		return "", stale(claim, entries) // the ensemble was restored, and has given the number to another one
	case i == 0:
		return path.Join(dir, entries[0].Name), nil
	case i < 0 && int64(claim.Token) <= changed:
		return "", stale(claim, entries)
	default:
		return "", notLeader(claim, entries, i)
	}
}

// Gone refuses a claim whose candidate has led and is gone. It looks the claim up again to find out
// why: a wiped ensemble is not a newer leader.
func (l *Leading) Gone(ctx context.Context, s *ensemble.Session, c fence.Claim) error {
	l.Forget(c.Resource)
	if _, err := l.find(ctx, s, c); err != nil {
		return err
	}
	return stale(c, nil)
}
