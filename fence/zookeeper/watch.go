package zookeeper

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

// Watch implements fence.Observer. It ends with a refusal of the ensemble too.
func (c *Coordinator) Watch(ctx context.Context, r fence.Resource, each func([]fence.Candidate) error) error {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return err
	}
	told := false
	var last []fence.Candidate
	look := func(ctx context.Context, s *session) (view, error) { return c.view(ctx, s, r) }
	return follow(ctx, c, "the election of "+string(r), look, func(queue []fence.Candidate) error {
		if told && slices.Equal(queue, last) {
			return nil
		}
		told, last = true, queue
		return each(slices.Clone(queue))
	})
}

// view is a queue as it was seen.
type view = sight[[]fence.Candidate]

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
