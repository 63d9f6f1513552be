package zookeeper

import (
	"context"
	"errors"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// await waits until the candidate leads, and returns when the round trip that proved it was begun. errGone: somebody
// deleted the candidate.
func (c *candidate) await(ctx context.Context) (confirmed time.Time, err error) {
	before, err := c.predecessors(ctx)
	if err != nil {
		return time.Time{}, err
	}
	for len(before) > 0 {
		_, changed, _ := c.s.state()
		names, err := c.s.list(ctx, c.dir)
		if err != nil {
			return time.Time{}, c.gone(err)
		}
		before = slices.DeleteFunc(before, func(e entry) bool { return !slices.Contains(names, e.name) })
		if len(before) == 0 {
			break
		}
		if err := c.sleep(ctx, before[len(before)-1], changed); err != nil {
			return time.Time{}, err
		}
	}
	return c.lead(ctx)
}

// lead proves that the candidate, which has no predecessor left, is still there.
func (c *candidate) lead(ctx context.Context) (confirmed time.Time, err error) {
	for {
		turn, start := c.s.turns(), time.Now()
		err := c.prove(ctx)
		switch {
		case err == nil && time.Since(start) < c.s.timeout/2: // a slower proof would make a term that is half over
			return start, nil
		case unanswered(err) && !over(err):
			err = c.s.after(ctx, turn)
		}
		if err != nil {
			return time.Time{}, err
		}
	}
}

// predecessors lists the candidates that are older than this one. One list is enough: it was made after the own znode,
// so it has every older one, and a name that appears later is younger. It also has whoever was created
// in one transaction with the own znode: then the error is errShared.
func (c *candidate) predecessors(ctx context.Context) ([]entry, error) {
	names, err := c.s.list(ctx, c.dir)
	if err != nil {
		return nil, c.gone(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		id, ok := guidOf(name)
		return !ok || id == c.id // a second znode of our own is no predecessor
	})
	entries, err := c.s.readEntries(ctx, c.dir, names, nil)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(entries, func(e entry) bool { return e.token == c.token }); i >= 0 {
		return nil, shared(c.dir, c.token, c.name, entries[i].name,
			"this campaign ends, and its candidate goes with its session; delete the other")
	}
	return slices.DeleteFunc(entries, func(e entry) bool { return e.token > c.token }), nil
}

// sleep watches the nearest predecessor and the own znode, and returns nil when it is time to look again: a watch
// fired, the connection broke or came back, or, in case a notice went missing, a session timeout has passed.
func (c *candidate) sleep(ctx context.Context, nearest entry, changed <-chan struct{}) error {
	own, err := c.watch(ctx, c.name)
	if err != nil {
		return c.gone(err)
	}
	ahead, err := c.watch(ctx, nearest.name)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	again := time.NewTimer(c.s.timeout)
	defer again.Stop()
	select {
	case <-ahead:
	case <-own:
	case <-changed:
		return nil
	case <-again.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.s.c.probe.woken != nil {
		c.s.c.probe.woken(c.resource, c.holder)
	}
	return nil
}

// watch arms a watch on a candidate; one that is gone is zk.ErrNoNode, and leaves no watch.
func (c *candidate) watch(ctx context.Context, name string) (<-chan zk.Event, error) {
	_, armed, err := c.s.watchData(ctx, path.Join(c.dir, name))
	return armed, err
}

// prove is the round trip that makes a term, and keeps it: through the ensemble's leader, then to the own znode, which
// must still be the one that was enrolled, owned by this session.
func (c *candidate) prove(ctx context.Context) error {
	stat, err := do(ctx, c.s, func(conn *zk.Conn) (*zk.Stat, error) {
		if _, err := conn.Sync(c.path()); err != nil {
			return nil, err
		}
		exists, stat, err := conn.Exists(c.path())
		if err != nil || !exists {
			return nil, err
		}
		return stat, nil
	})
	switch {
	case err != nil:
		return err
	case stat == nil, stat.EphemeralOwner != c.s.id, stat.Czxid != int64(c.token):
		return errGone
	}
	return nil
}

// gone is errGone for a znode that does not exist.
func (c *candidate) gone(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return errGone
	}
	return c.s.c.explain(c.dir, err)
}
