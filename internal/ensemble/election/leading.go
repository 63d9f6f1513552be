package election

import (
	"context"
	"errors"
	"path"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
)

// leadingMost bounds a cache of claims. A claim that is not in it costs some reads.
const leadingMost = 10_000

// Leading finds the candidates of claims that lead, and remembers the last one of each resource. One
// look is enough: younger candidates queue behind a leader, so its claim leads as long as its znode
// exists. Each change has to check that it does (ensemble.CheckExists).
type Leading struct {
	client  *ensemble.Client
	entries Cache

	mu   sync.Mutex
	seen map[fence.Resource]leader
}

// leader is a claim that was found to lead, and its candidate's znode.
type leader struct {
	claim fence.Claim
	znode string
}

// NewLeading returns an empty Leading.
func NewLeading(c *ensemble.Client) *Leading {
	return &Leading{client: c, seen: map[fence.Resource]leader{}}
}

// Candidate returns the path of the claim's candidate. The claim led when it was first looked up.
func (l *Leading) Candidate(
	ctx context.Context, s *ensemble.Session, c fence.Claim,
) (string, error) {
	c.Holder = ""
	l.mu.Lock()
	seen := l.seen[c.Resource]
	l.mu.Unlock()
	if seen.claim == c {
		return seen.znode, nil
	}
	at, err := l.find(ctx, s, c)
	if err != nil {
		return "", err
	}
	l.Won(c, at)
	return at, nil
}

// Won tells that a claim was found to lead, with its candidate's znode, by a campaign of this process.
func (l *Leading) Won(c fence.Claim, znode string) {
	c.Holder = ""
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.seen) >= leadingMost {
		clear(l.seen)
	}
	l.seen[c.Resource] = leader{c, znode}
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
	l.mu.Lock()
	delete(l.seen, c.Resource)
	l.mu.Unlock()
	if _, err := l.find(ctx, s, c); err != nil {
		return err
	}
	return stale(c, nil)
}
