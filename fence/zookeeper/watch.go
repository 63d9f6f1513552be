package zookeeper

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// Watch implements fence.Observer. It also ends if the ensemble refuses a request.
func (c *Coordinator) Watch(
	ctx context.Context, r fence.Resource, each func([]fence.Candidate) error,
) error {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return err
	}
	told := false
	var last []fence.Candidate
	read := func(
		ctx context.Context, s *ensemble.Session,
	) ([]fence.Candidate, <-chan zk.Event, error) {
		return c.watchQueue(ctx, s, r)
	}
	return ensemble.Follow(ctx, c.client, "the election of "+string(r), read,
		func(queue []fence.Candidate) error {
			if told && slices.Equal(queue, last) {
				return nil
			}
			told, last = true, queue
			return each(slices.Clone(queue))
		})
}

// watchQueue sets a watch on the election's children, or on the election's creation, and then
// reads. The acknowledgement is a child too, and a new one is a new znode, so no other watch is
// needed.
func (c *Coordinator) watchQueue(
	ctx context.Context, s *ensemble.Session, r fence.Resource,
) ([]fence.Candidate, <-chan zk.Event, error) {
	dir := election.Dir(c.client.Root(), r)
	if err := s.Sync(ctx, dir); err != nil {
		return nil, nil, err
	}
	for {
		names, changed, err := s.WatchChildren(ctx, dir)
		if errors.Is(err, zk.ErrNoNode) {
			var exists bool
			exists, changed, err = s.WatchExistence(ctx, dir)
			if err == nil && exists {
				continue
			}
		}
		if err != nil {
			return nil, nil, c.client.Explain(dir, err)
		}
		queue, err := c.queue(ctx, s, r, names)
		return queue, changed, err
	}
}
