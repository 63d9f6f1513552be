package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

// leaderTries bounds how often Leaders looks again because something has changed since it was read.
const leaderTries = 10

// leadership is what a session has read for Leaders. Whether it is so now, confirmed finds out; the
// package documentation says why that is enough.
type leadership struct {
	issuer  identity
	leaders map[fence.Resource]entry // has no entry where nobody was seen to lead
}

// Leaders implements fence.Observer. While nothing changes it costs one request, a transaction of
// checks. Ready is left false. See "Who leads now" in the package documentation.
func (c *Coordinator) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (fence.Issuer, []fence.Candidate, error) {
	for _, r := range rs {
		if _, err := fence.ParseResource(string(r)); err != nil {
			return "", nil, err
		}
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(rs)))
	now, err := observe(ctx, c, func(ctx context.Context, s *session) (leadership, error) {
		return c.leadersNow(ctx, s, distinct)
	})
	if err != nil {
		return "", nil, err
	}
	candidates := make([]fence.Candidate, len(rs))
	for i, r := range rs {
		leader := now.leaders[r]
		candidates[i] = fence.Candidate{Token: leader.token, Holder: leader.holder}
	}
	return now.issuer.issuer, candidates, nil
}

// leadersNow confirms what the session has read, and answers with nothing else. Where it has seen
// nobody lead it looks after that. Whoever it finds is confirmed together with the others.
func (c *Coordinator) leadersNow(
	ctx context.Context, s *session, rs []fence.Resource,
) (leadership, error) {
	for range leaderTries {
		seen, err := c.recall(ctx, s, rs)
		if err != nil {
			return leadership{}, err
		}
		same, err := s.confirmed(ctx, seen)
		if err != nil {
			return leadership{}, err
		}
		if !same {
			c.forget(s, seen)
			continue
		}
		again, err := c.lookForLeaders(ctx, s, rs, seen)
		if err != nil || !again {
			return seen, err
		}
	}
	return leadership{}, fmt.Errorf("who leads %v at ZooKeeper %s has changed %d times while it was read; ask again",
		rs, c.hosts(), leaderTries)
}

// recall returns what the session has read of these resources and of the issuer. It reads the issuer
// if need be.
func (c *Coordinator) recall(
	ctx context.Context, s *session, rs []fence.Resource,
) (leadership, error) {
	seen := leadership{leaders: map[fence.Resource]entry{}}
	if !c.note(s, func(all *leadership) {
		seen.issuer = all.issuer
		for _, r := range rs {
			if leader, ok := all.leaders[r]; ok {
				seen.leaders[r] = leader
			}
		}
	}) {
		return leadership{}, errEnded // observe asks again, in the session that replaced it
	}
	if seen.issuer != (identity{}) {
		return seen, nil
	}
	var err error
	if seen.issuer, err = s.identity(ctx); err == nil {
		c.note(s, func(all *leadership) { all.issuer = seen.issuer })
	}
	return seen, err
}

// forget drops what no longer holds, but nothing that another call has read since.
func (c *Coordinator) forget(s *session, old leadership) {
	c.note(s, func(all *leadership) {
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

// note reads or changes what is remembered of the session. It returns false, and does nothing, if
// the session was dropped, for then that is gone.
func (c *Coordinator) note(s *session, do func(all *leadership)) bool {
	c.eyes.mu.Lock()
	defer c.eyes.mu.Unlock()
	if c.eyes.s != s {
		return false
	}
	do(&c.eyes.seen)
	return true
}

// confirmed tells, by one transaction of the ensemble, whether all of this is so now.
func (s *session) confirmed(ctx context.Context, seen leadership) (bool, error) {
	checks := []any{
		&zk.CheckVersionRequest{Path: s.c.issuerPath(), Version: seen.issuer.version},
	}
	for r, leader := range seen.leaders {
		checks = append(checks, exists(path.Join(s.c.electionPath(r), leader.name)))
	}
	_, err := read(ctx, s, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(checks...)
	})
	switch {
	case err == nil: // the notice of an earlier change came before this answer
		return !seen.issuer.changed(), nil
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		return false, nil
	}
	return false, s.c.explain(s.c.address.root, err)
}

// lookForLeaders reads who leads where nobody was seen to, and remembers it. It follows a transaction
// in the same session: a server that lags behind might say that nobody leads. again is true unless
// nobody leads any of them.
func (c *Coordinator) lookForLeaders(
	ctx context.Context, s *session, rs []fence.Resource, seen leadership,
) (again bool, err error) {
	for _, r := range rs {
		if _, ok := seen.leaders[r]; ok {
			continue
		}
		somebody, err := c.lookForLeader(ctx, s, r)
		if err != nil {
			return false, err
		}
		again = again || somebody
	}
	return again, nil
}

// lookForLeader returns false if nobody leads. All candidates of a list may be gone when they are
// read, and others may have come: if anybody came or went meanwhile, it returns true.
func (c *Coordinator) lookForLeader(
	ctx context.Context, s *session, r fence.Resource,
) (again bool, err error) {
	dir := c.electionPath(r)
	names, listed, err := s.childrenOf(ctx, dir)
	if err != nil {
		return false, err
	}
	entries, err := c.entries(ctx, s, dir, names)
	switch {
	case err != nil:
		return false, err
	case len(entries) > 0:
		c.note(s, func(all *leadership) { all.leaders[r] = entries[0] })
		return true, nil
	case slices.ContainsFunc(names, isCandidate):
		_, now, err := s.childrenOf(ctx, dir)
		return now != listed, err
	}
	return false, nil
}
