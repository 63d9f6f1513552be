package zookeeper

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
)

// Enrol implements campaign.Candidate. It creates the candidate's znode, and makes sure that the
// ensemble has an issuer.
func (e *candidate) Enrol(ctx context.Context) (fence.Token, error) {
	if _, err := readIssuer(ctx, e.s.zk); err != nil {
		return 0, e.s.over(err)
	}
	token, err := e.enrol(ctx)
	return token, e.s.over(err)
}

// enrol creates the znode, once, and reads its czxid, which the library's create does not return.
func (e *candidate) enrol(ctx context.Context) (fence.Token, error) {
	for e.name == "" {
		connects := e.s.zk.Connects()
		err := e.create(ctx)
		switch {
		case err == nil:
		case errors.Is(err, zk.ErrNoNode):
			err = e.s.zk.Ensure(ctx, e.dir)
		case ensemble.Unanswered(err) && !ensemble.SessionOver(err):
			err = e.recover(ctx, connects)
		}
		if err != nil {
			return 0, e.s.c.client.Explain(e.dir, err)
		}
	}
	stat, err := e.s.zk.Stat(ctx, e.path())
	if err != nil {
		return 0, err
	}
	if stat == nil || stat.EphemeralOwner != e.s.zk.ID() {
		return 0, errGone
	}
	return fence.Token(stat.Czxid), nil
}

func (e *candidate) create(ctx context.Context) error {
	e.mu.Lock()
	e.unknown++ // until created records the reply
	e.mu.Unlock()
	at, err := ensemble.Do(ctx, e.s.zk, func(conn *zk.Conn) (string, error) {
		prefix := path.Join(e.dir, e.id.namePrefix())
		at, err := conn.Create(prefix, encode(entryData{Holder: e.Holder}),
			zk.FlagEphemeralSequential, e.s.zk.ACL)
		e.created(path.Base(at), err) // also if ctx has ended
		return at, err
	})
	if err == nil {
		e.name = path.Base(at)
	}
	return err
}

// recover finds out, once the session is up again, whether the create with the lost reply has
// happened. If it has not, recover returns no name and no error. If it happens even later, its
// znode is behind the next one of this campaign, and is deleted when the candidate has left.
func (e *candidate) recover(ctx context.Context, connects int) error {
	if err := e.s.zk.AwaitConnect(ctx, connects); err != nil {
		return err
	}
	if err := e.s.zk.Sync(ctx); err != nil {
		return err
	}
	names, err := e.s.zk.List(ctx, e.dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	return e.adopt(ctx, names)
}

// adopt records the znodes that have our GUID and belong to this session, and takes the oldest one
// if the candidate has none.
func (e *candidate) adopt(ctx context.Context, names []string) error {
	var oldest int64
	var name string
	for _, other := range names {
		if id, ok := guidIn(other); !ok || id != e.id {
			continue
		}
		stat, err := e.s.zk.Stat(ctx, path.Join(e.dir, other))
		if err != nil {
			return err
		}
		if stat == nil || stat.EphemeralOwner != e.s.zk.ID() {
			continue
		}
		e.found(other)
		if oldest == 0 || stat.Czxid < oldest {
			name, oldest = other, stat.Czxid
		}
	}
	if e.name == "" {
		e.name = name
	}
	return nil
}
