package zookeeper

import (
	"context"
	"errors"
	"path"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

// eyes is the one session of all calls that only look. It lasts for one connection: names are resolved anew for the
// next, no watch has to be set again, and a wiped ensemble is met with nothing remembered.
type eyes struct {
	turn chan struct{} // held while the session is changed; a channel, so that whoever waits can give up

	mu    sync.Mutex
	s     *session
	known map[string]entry // of s: candidates that have been read, by path
	seen  leadership       // of s, too: for Leaders
}

// look returns the session, opened if need be.
func (c *Coordinator) look(ctx context.Context) (*session, error) {
	select {
	case c.eyes.turn <- struct{}{}:
		defer func() { <-c.eyes.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c.eyes.mu.Lock()
	s := c.eyes.s
	c.eyes.mu.Unlock()
	if s != nil || c.ctx.Err() != nil { // after Close none must be opened
		return s, context.Cause(c.ctx)
	}
	s, err := c.openSession(ctx, false)
	if err != nil {
		return nil, err
	}
	c.eyes.mu.Lock()
	c.eyes.s, c.eyes.known, c.eyes.seen = s, map[string]entry{}, leadership{leaders: map[fence.Resource]entry{}}
	c.eyes.mu.Unlock()
	return s, nil
}

// blink drops a session that did not answer.
func (c *Coordinator) blink(s *session) {
	c.eyes.mu.Lock()
	mine := c.eyes.s == s
	if mine {
		c.eyes.s, c.eyes.known, c.eyes.seen = nil, nil, leadership{}
	}
	c.eyes.mu.Unlock()
	if mine && c.begin() == nil {
		go func() { defer c.work.Done(); s.close() }()
	} else if mine {
		s.close()
	}
}

func (c *Coordinator) closeEyes() {
	c.eyes.turn <- struct{}{} // whoever opens a session now gives up, for c.ctx has ended
	defer func() { <-c.eyes.turn }()
	c.eyes.mu.Lock()
	s := c.eyes.s
	c.eyes.s = nil
	c.eyes.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// observe asks the ensemble, again on a fresh connection when there is no reply, until the patience is up.
func observe[T any](ctx context.Context, c *Coordinator, ask func(context.Context, *session) (T, error)) (T, error) {
	var none T
	if err := c.begin(); err != nil {
		return none, err
	}
	defer c.work.Done()
	caller := ctx
	ctx, stop := c.until(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	for n := 1; ctx.Err() == nil; n++ {
		value, err := askOnce(ctx, c, ask)
		if err == nil || !unanswered(err) && ctx.Err() == nil {
			return value, err
		}
		c.failed(err)
		pause(ctx, backoff(n, 10*time.Millisecond, time.Second))
	}
	return none, c.unreachable(caller)
}

func askOnce[T any](ctx context.Context, c *Coordinator, ask func(context.Context, *session) (T, error)) (T, error) {
	s, err := c.look(ctx)
	if err != nil {
		var none T
		return none, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.patience()/3, errSlow)
	defer cancel()
	value, err := ask(ctx, s)
	if unanswered(err) {
		c.blink(s)
	}
	return value, err
}

// Issuer implements fence.Observer.
func (c *Coordinator) Issuer(ctx context.Context) (fence.Issuer, error) {
	return observe(ctx, c, func(ctx context.Context, s *session) (fence.Issuer, error) { return s.issuer(ctx) })
}

// Candidates implements fence.Observer. It is a read of the ensemble's leader, through a sync.
func (c *Coordinator) Candidates(ctx context.Context, r fence.Resource) ([]fence.Candidate, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	return observe(ctx, c, func(ctx context.Context, s *session) ([]fence.Candidate, error) {
		if err := s.sync(ctx, c.address.root); err != nil {
			return nil, err
		}
		names, err := s.list(ctx, c.electionPath(r))
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, c.explain(c.electionPath(r), err)
		}
		return c.queue(ctx, s, r, names)
	})
}

// Depose implements fence.Elector.
func (c *Coordinator) Depose(ctx context.Context, r fence.Resource, t fence.Token) (bool, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return false, err
	}
	sent := false // a delete; when it has no reply and the znode is gone, it was ours
	return observe(ctx, c, func(ctx context.Context, s *session) (bool, error) {
		if err := s.sync(ctx, c.address.root); err != nil {
			return false, err
		}
		all, err := c.find(ctx, s, r, t)
		if err != nil {
			return false, err
		}
		for _, at := range all {
			sent = true
			_, err = read(ctx, s, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(at, -1) })
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return false, c.explain(at, err)
			}
		}
		return sent, nil
	})
}

// find returns the paths of the candidates with the token: none, one, or all that share it.
func (c *Coordinator) find(ctx context.Context, s *session, r fence.Resource, t fence.Token) ([]string, error) {
	dir := c.electionPath(r)
	names, err := s.list(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, c.explain(dir, err)
	}
	entries, err := s.readEntries(ctx, dir, names, nil)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if e.token == t {
			found = append(found, path.Join(dir, e.name))
		}
	}
	return found, nil
}

// queue makes the public list from the names in an election.
func (c *Coordinator) queue(ctx context.Context, s *session, r fence.Resource, names []string) ([]fence.Candidate, error) {
	dir := c.electionPath(r)
	entries, err := c.entries(ctx, s, dir, names)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	ready, err := s.acknowledged(ctx, dir)
	if err != nil {
		return nil, err
	}
	queue := make([]fence.Candidate, len(entries))
	for i, e := range entries {
		queue[i] = fence.Candidate{Token: e.token, Holder: e.holder, Ready: i == 0 && e.token == ready}
	}
	return queue, nil
}
