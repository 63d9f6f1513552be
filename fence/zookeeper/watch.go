package zookeeper

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

// Watch implements fence.Observer. It ends with a refusal of the ensemble too.
func (c *Coordinator) Watch(ctx context.Context, r fence.Resource, each func([]fence.Candidate) error) error {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return err
	}
	if err := c.begin(); err != nil {
		return err
	}
	defer c.work.Done()
	ctx, stop := c.until(ctx)
	defer stop()
	told := false
	var last []fence.Candidate
	for failures := 0; ctx.Err() == nil; {
		v, err := observe(ctx, c, func(ctx context.Context, s *session) (view, error) { return c.view(ctx, s, r) })
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, ErrUnreachable):
			failures++
			c.log.Warn("watch has lost sight of the election", "resource", r, "error", err)
			pause(ctx, backoff(failures, backoffLeast, backoffMost))
			continue
		case err != nil:
			return err
		case !told || !slices.Equal(v.queue, last):
			told, last = true, v.queue
			if err := each(slices.Clone(v.queue)); err != nil {
				return err
			}
		}
		if ctx.Err() == nil {
			failures = 0
			v.wait(ctx, c.timeout)
		}
	}
	return context.Cause(ctx)
}

// view is a queue and what tells that it may have changed.
type view struct {
	queue   []fence.Candidate
	changed <-chan zk.Event
	broken  <-chan struct{}
}

// wait returns when it is time to look again; after a session timeout in case a notice went missing.
func (v view) wait(ctx context.Context, most time.Duration) {
	again := time.NewTimer(most)
	defer again.Stop()
	select {
	case <-v.changed:
	case <-v.broken:
	case <-again.C:
	case <-ctx.Done():
	}
}

// view arms a watch on the election's children, or on its coming into being, and then reads. The acknowledgement is a
// child too, and is made anew when it changes, so no other watch is needed.
func (c *Coordinator) view(ctx context.Context, s *session, r fence.Resource) (view, error) {
	dir := c.electionPath(r)
	if err := s.sync(ctx, dir); err != nil {
		return view{}, err
	}
	for {
		names, changed, err := s.watchChildren(ctx, dir)
		if errors.Is(err, zk.ErrNoNode) {
			var exists bool
			exists, changed, err = s.watchExistence(ctx, dir)
			if err == nil && exists {
				continue
			}
		}
		if err != nil {
			return view{}, c.explain(dir, err)
		}
		queue, err := c.queue(ctx, s, r, names)
		return view{queue, changed, s.over}, err
	}
}

func (s *session) watchChildren(ctx context.Context, at string) ([]string, <-chan zk.Event, error) {
	plain := func(conn *zk.Conn) ([]string, error) {
		names, _, err := conn.Children(at)
		return names, err
	}
	arm := func(conn *zk.Conn) ([]string, <-chan zk.Event, error) {
		names, _, armed, err := conn.ChildrenW(at)
		return names, armed, err
	}
	return watched(ctx, s, "children "+at, at, plain, arm)
}

func (s *session) watchExistence(ctx context.Context, at string) (bool, <-chan zk.Event, error) {
	plain := func(conn *zk.Conn) (bool, error) {
		exists, _, err := conn.Exists(at)
		return exists, err
	}
	arm := func(conn *zk.Conn) (bool, <-chan zk.Event, error) {
		exists, _, armed, err := conn.ExistsW(at)
		return exists, armed, err
	}
	return watched(ctx, s, "existence "+at, at, plain, arm)
}
