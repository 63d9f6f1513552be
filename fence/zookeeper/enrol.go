package zookeeper

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// errGone: the own candidate is gone, or a znode of another session has its name.
var errGone = errors.New("the candidate's znode was deleted")

// enrolment is the own candidate in an election, in the session that made it.
type enrolment struct {
	s        *ensemble.Session
	woken    func(r fence.Resource, holder string) // for tests; may be nil
	resource fence.Resource
	holder   string
	dir      string
	id       election.GUID
	name     string
	token    fence.Token
}

func (e *enrolment) path() string { return path.Join(e.dir, e.name) }

// enrol creates the candidate, once, and reads its czxid, which the library's create does not
// return.
func (c *Coordinator) enrol(
	ctx context.Context, s *ensemble.Session, r fence.Resource, holder string,
) (*enrolment, error) {
	e := &enrolment{
		s: s, woken: c.woken, resource: r, holder: holder, dir: election.Dir(c.client.Root(), r),
		id: election.NewGUID(),
	}
	for e.name == "" {
		connects := s.Connects()
		err := e.create(ctx)
		switch {
		case err == nil:
		case errors.Is(err, zk.ErrNoNode):
			err = s.Ensure(ctx, e.dir)
		case ensemble.Unanswered(err) && !ensemble.SessionOver(err):
			err = e.recover(ctx, connects)
		}
		if err != nil {
			return nil, s.Client().Explain(e.dir, err)
		}
	}
	stat, err := s.Stat(ctx, e.path())
	if err != nil {
		return nil, err
	}
	if stat == nil || stat.EphemeralOwner != s.ID() {
		return nil, errGone
	}
	e.token = fence.Token(stat.Czxid)
	return e, nil
}

func (e *enrolment) create(ctx context.Context) error {
	at, err := ensemble.Do(ctx, e.s, func(conn *zk.Conn) (string, error) {
		prefix := path.Join(e.dir, e.id.NamePrefix())
		return conn.Create(prefix, election.Encode(election.EntryData{Holder: e.holder}),
			zk.FlagEphemeralSequential, e.s.Client().ACL())
	})
	if err == nil {
		e.name = path.Base(at)
	}
	return err
}

// recover finds out, once the session is up again, whether the create with the lost reply has
// happened. If it has not, recover returns no name and no error. If it happens even later, its
// znode is behind the next one of this campaign, and ends with the session.
func (e *enrolment) recover(ctx context.Context, connects int) error {
	if err := e.s.AwaitConnect(ctx, connects); err != nil {
		return err
	}
	if err := e.s.Sync(ctx, e.dir); err != nil {
		return err
	}
	names, err := e.s.List(ctx, e.dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.adopt(ctx, names)
}

// adopt takes the oldest znode that has our GUID and belongs to this session.
func (e *enrolment) adopt(ctx context.Context, names []string) error {
	var oldest int64
	for _, name := range names {
		if id, ok := election.ParseName(name); !ok || id != e.id {
			continue
		}
		stat, err := e.s.Stat(ctx, path.Join(e.dir, name))
		if err != nil {
			return err
		}
		if stat == nil || stat.EphemeralOwner != e.s.ID() {
			continue
		}
		if oldest == 0 || stat.Czxid < oldest {
			e.name, oldest = name, stat.Czxid
		}
	}
	return nil
}
