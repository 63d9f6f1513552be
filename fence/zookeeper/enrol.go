package zookeeper

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

// candidate is the own znode in an election, in the session that made it.
type candidate struct {
	s        *session
	resource fence.Resource
	holder   string
	dir      string
	id       guid
	name     string
	token    fence.Token
}

func (c *candidate) path() string { return path.Join(c.dir, c.name) }

// enrol makes the candidate, once, and reads its czxid, which the library's create does not tell.
func (s *session) enrol(ctx context.Context, r fence.Resource, holder string) (*candidate, error) {
	c := &candidate{s: s, resource: r, holder: holder, dir: s.c.electionPath(r), id: newGUID()}
	for c.name == "" {
		turn := s.turns()
		err := c.create(ctx)
		switch {
		case err == nil:
		case errors.Is(err, zk.ErrNoNode):
			err = s.ensure(ctx, c.dir)
		case unanswered(err) && !over(err):
			err = c.recover(ctx, turn)
		}
		if err != nil {
			return nil, s.c.explain(c.dir, err)
		}
	}
	stat, err := s.stat(ctx, c.path())
	if err != nil {
		return nil, err
	}
	if stat == nil || stat.EphemeralOwner != s.id {
		return nil, errGone
	}
	c.token = fence.Token(stat.Czxid)
	return c, nil
}

func (c *candidate) create(ctx context.Context) error {
	at, err := do(ctx, c.s, func(conn *zk.Conn) (string, error) {
		prefix := path.Join(c.dir, candidatePrefix+string(c.id)) + "-"
		return conn.Create(prefix, encode(candidateData{c.holder}), zk.FlagEphemeralSequential, c.s.c.acl)
	})
	if err == nil {
		c.name = path.Base(at)
	}
	return err
}

// recover looks, once the session is up again, whether the create whose reply was lost has happened. No name and no
// error: it has not. Should it happen later still, after another create, it is behind that one, and goes with it.
func (c *candidate) recover(ctx context.Context, turn int) error {
	if err := c.s.after(ctx, turn); err != nil {
		return err
	}
	if err := c.s.sync(ctx, c.dir); err != nil {
		return err
	}
	names, err := c.s.list(ctx, c.dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.adopt(ctx, names)
}

// adopt takes the oldest znode that has our GUID and belongs to this very session.
func (c *candidate) adopt(ctx context.Context, names []string) error {
	var oldest int64
	for _, name := range names {
		if id, ok := guidOf(name); !ok || id != c.id {
			continue
		}
		stat, err := c.s.stat(ctx, path.Join(c.dir, name))
		if err != nil {
			return err
		}
		if stat == nil || stat.EphemeralOwner != c.s.id {
			continue
		}
		if oldest == 0 || stat.Czxid < oldest {
			c.name, oldest = name, stat.Czxid
		}
	}
	return nil
}
