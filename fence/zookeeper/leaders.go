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
)

// maxLeaderTries bounds how often Leaders reads again because something has changed.
const maxLeaderTries = 10

// leadership is what a session has read for Leaders. confirmed finds out whether it still holds;
// the package documentation says why that is enough.
type leadership struct {
	issuer  identity
	leaders map[fence.Resource]entry // no entry where no leader was found
}

// Leaders implements elector.Observer. While nothing changes, it costs one request, a transaction
// of checks. Ready is always false. See "Who leads now" in the package documentation.
func (c *Coordinator) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (fence.Issuer, []elector.Candidate, error) {
	for _, r := range rs {
		if _, err := fence.ParseResource(string(r)); err != nil {
			return "", nil, err
		}
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(rs)))
	now, err := ensemble.Ask(ctx, c.client, func(
		ctx context.Context, s *ensemble.Session,
	) (leadership, error) {
		return c.leadersNow(ctx, s, distinct)
	})
	if err != nil {
		return "", nil, err
	}
	candidates := make([]elector.Candidate, len(rs))
	for i, r := range rs {
		candidates[i] = now.leaders[r].candidate()
	}
	return now.issuer.issuer, candidates, nil
}

// leadersNow confirms what the session has read and returns only that. For a resource without a
// known leader, it reads after the confirmation. If it finds a leader, it confirms that one
// together with the others.
func (c *Coordinator) leadersNow(
	ctx context.Context, s *ensemble.Session, rs []fence.Resource,
) (leadership, error) {
	for range maxLeaderTries {
		seen, err := c.cached(ctx, s, rs)
		if err != nil {
			return leadership{}, err
		}
		same, err := c.confirmed(ctx, s, seen)
		if err != nil {
			return leadership{}, err
		}
		if !same {
			c.invalidate(s, seen)
			continue
		}
		again, err := c.findLeaders(ctx, s, rs, seen)
		if err != nil || !again {
			return seen, err
		}
	}
	return leadership{}, fmt.Errorf("who leads %v at ZooKeeper %s has changed %d times while it "+
		"was read; ask again",
		rs, c.client.Where, maxLeaderTries)
}

// cached returns what the session has read about these resources and the issuer. It reads the
// issuer if necessary.
func (c *Coordinator) cached(
	ctx context.Context, s *ensemble.Session, rs []fence.Resource,
) (leadership, error) {
	seen := leadership{leaders: map[fence.Resource]entry{}}
	if !c.leaders.Use(s, func(all *leadership) {
		seen.issuer = all.issuer
		for _, r := range rs {
			if leader, ok := all.leaders[r]; ok {
				seen.leaders[r] = leader
			}
		}
	}) {
		return leadership{}, ensemble.ErrEnded // Ask calls again in the next session
	}
	if seen.issuer != (identity{}) {
		return seen, nil
	}
	var err error
	if seen.issuer, err = watchIssuer(ctx, s); err == nil {
		c.leaders.Use(s, func(all *leadership) { all.issuer = seen.issuer })
	}
	return seen, err
}

// invalidate drops what no longer holds, but nothing that another call has read meanwhile.
func (c *Coordinator) invalidate(s *ensemble.Session, old leadership) {
	c.leaders.Use(s, func(all *leadership) {
		if all.issuer == old.issuer {
			all.issuer = identity{}
		}
		for r, leader := range old.leaders {
			if all.leaders[r] == leader {
				delete(all.leaders, r)
			}
		}
	})
}

// confirmed reports whether all of this holds now. It sends one transaction to the ensemble.
func (c *Coordinator) confirmed(
	ctx context.Context, s *ensemble.Session, seen leadership,
) (bool, error) {
	checks := []any{&zk.CheckVersionRequest{Path: issuerPath(c.client), Version: seen.issuer.version}}
	for r, leader := range seen.leaders {
		checks = append(checks, ensemble.CheckExists(path.Join(c.dir(r), leader.name)))
	}
	err := s.Multi(ctx, checks...)
	switch {
	case err == nil: // a notice of an earlier change would have come before this answer
		return !fired(seen.issuer.watch), nil
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		return false, nil
	}
	return false, c.client.Explain(c.client.Path, err)
}

// findLeaders looks for leaders of the resources that have none, and caches them. Call it after a
// transaction in the same session; otherwise a server that lags behind might say that nobody leads.
// again is false only if it has found no leader at all.
func (c *Coordinator) findLeaders(
	ctx context.Context, s *ensemble.Session, rs []fence.Resource, seen leadership,
) (again bool, err error) {
	for _, r := range rs {
		if _, ok := seen.leaders[r]; !ok {
			somebody, err := c.findLeader(ctx, s, r)
			if err != nil {
				return false, err
			}
			again = again || somebody
		}
	}
	return again, nil
}

// findLeader returns false if nobody leads. All candidates of a list may be gone when they are
// read, and others may have come. So if a candidate came or went meanwhile, it returns true.
func (c *Coordinator) findLeader(
	ctx context.Context, s *ensemble.Session, r fence.Resource,
) (again bool, err error) {
	dir := c.dir(r)
	names, listed, err := s.Children(ctx, dir)
	if err != nil {
		return false, err
	}
	entries, err := c.entries.entries(ctx, s, dir, names)
	switch {
	case err != nil:
		return false, err
	case len(entries) > 0:
		c.leaders.Use(s, func(all *leadership) {
			if all.leaders == nil {
				all.leaders = map[fence.Resource]entry{}
			}
			all.leaders[r] = entries[0]
		})
		return true, nil
	case slices.ContainsFunc(names, isCandidate):
		_, now, err := s.Children(ctx, dir)
		return now != listed, err
	}
	return false, nil
}
