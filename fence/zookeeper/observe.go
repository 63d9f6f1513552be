package zookeeper

import (
	"context"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/internal/campaign"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
)

// Candidates implements elector.Observer. It syncs with the ensemble's leader before it reads.
func (c *Coordinator) Candidates(
	ctx context.Context, r fence.Resource,
) ([]elector.Candidate, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	return ensemble.Ask(ctx, c.client, func(
		ctx context.Context, s *ensemble.Session,
	) ([]elector.Candidate, error) {
		if err := s.Sync(ctx); err != nil {
			return nil, err
		}
		names, _, err := s.Children(ctx, c.dir(r))
		if err != nil {
			return nil, err
		}
		return c.queue(ctx, s, r, names)
	})
}

// Depose implements fence.Elector.
func (c *Coordinator) Depose(ctx context.Context, r fence.Resource, t fence.Token) (bool, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return false, err
	}
	sent := false // if a delete had no reply and the znode is gone, this call deleted it
	return ensemble.Ask(ctx, c.client, func(ctx context.Context, s *ensemble.Session) (bool, error) {
		if err := s.Sync(ctx); err != nil {
			return false, err
		}
		all, err := c.find(ctx, s, r, t)
		if err != nil {
			return false, err
		}
		for _, at := range all {
			sent = true
			if err := s.Delete(ctx, at); err != nil {
				return false, err
			}
		}
		return sent, nil
	})
}

// find returns the paths of the candidates with the token: none, one, or several that share it.
func (c *Coordinator) find(
	ctx context.Context, s *ensemble.Session, r fence.Resource, t fence.Token,
) ([]string, error) {
	dir := c.dir(r)
	names, _, err := s.Children(ctx, dir)
	if err != nil {
		return nil, err
	}
	entries, err := readEntries(ctx, s, dir, names, nil)
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

// queue reads the candidates with these names, in order.
func (c *Coordinator) queue(
	ctx context.Context, s *ensemble.Session, r fence.Resource, names []string,
) ([]elector.Candidate, error) {
	dir := c.dir(r)
	entries, err := c.entries.entries(ctx, s, dir, names)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	ready, err := acknowledged(ctx, s, dir)
	if err != nil {
		return nil, err
	}
	queue := make([]elector.Candidate, len(entries))
	for i, e := range entries {
		queue[i] = e.candidate()
		queue[i].Ready = i == 0 && e.token == ready
	}
	return queue, nil
}

// Watch implements elector.Observer. It also ends if the ensemble refuses a request. The
// acknowledgement is a child of the election too, and a new one is a new znode, so one watch is
// enough.
func (c *Coordinator) Watch(
	ctx context.Context, r fence.Resource, each func([]elector.Candidate) error,
) error {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return err
	}
	read := func(
		ctx context.Context, s *ensemble.Session,
	) (queue []elector.Candidate, changed <-chan zk.Event, err error) {
		names, changed, err := ensemble.WatchOrAwait(ctx, s, c.dir(r), s.WatchChildren)
		if err == nil {
			queue, err = c.queue(ctx, s, r, names)
		}
		return queue, changed, err
	}
	return ensemble.Follow(ctx, c.client, "the election of "+string(r), read, campaign.OnOther(each))
}
