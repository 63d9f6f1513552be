package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/internal/ensemble"
)

// maxAcknowledge bounds the race with the acknowledgement of an older term, which disappears with
// its candidate or its session.
const maxAcknowledge = 10

// Acknowledge implements elector.Backing. One transaction checks that the own candidate exists,
// removes the acknowledgement of an older term, and creates the leader znode.
func (e *candidate) Acknowledge(ctx context.Context) error {
	e.mu.Lock()
	e.acknowledges = true
	e.mu.Unlock()
	at := path.Join(e.dir, leaderName)
	for range maxAcknowledge {
		n, err := e.s.zk.Get(ctx, at)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return e.s.c.client.Explain(at, err)
		}
		there := err == nil
		if there && n.Stat.EphemeralOwner == e.s.zk.ID() &&
			parse[acknowledgement](n.Data).Token == e.Token() {
			return e.deposed(ctx) // already acknowledged: by an earlier call, or its reply was lost
		}
		err = e.publish(ctx, at, there)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode),
			ensemble.Unanswered(err) && !ensemble.SessionOver(err):
			if err := e.deposed(ctx); err != nil {
				return err
			}
		default:
			return e.s.c.client.Explain(at, err)
		}
	}
	return fmt.Errorf("acknowledge %s=%s: %s keeps changing", e.Resource, e.Token(), at)
}

func (e *candidate) publish(ctx context.Context, at string, replace bool) error {
	ops := []any{ensemble.CheckExists(e.path())}
	if replace {
		ops = append(ops, &zk.DeleteRequest{Path: at, Version: -1})
	}
	ops = append(ops, &zk.CreateRequest{
		Path: at, Data: encode(acknowledgement{Token: e.Token(), Holder: e.Holder}),
		Acl: e.s.zk.ACL, Flags: zk.FlagEphemeral,
	})
	_, err := ensemble.Do(ctx, e.s.zk, func(conn *zk.Conn) (any, error) { return conn.Multi(ops...) })
	return err
}

// deposed returns fence.ErrDeposed if the own candidate is gone.
func (e *candidate) deposed(ctx context.Context) error {
	stat, err := e.s.zk.Stat(ctx, e.path())
	switch {
	case err != nil:
		return err
	case stat == nil || stat.Czxid != int64(e.Token()):
		return fence.ErrDeposed
	}
	return nil
}

// Release implements elector.Backing. It deletes the candidate by its full name, which no other
// term ever has. Without a connection it waits for one, until ctx or the session ends. If there is
// no answer, the session deletes the candidate as soon as there is one, or times out.
func (e *candidate) Release(ctx context.Context) error {
	if e.s.Ended() != nil {
		e.s.Forget(e.Key)
		return nil // the candidate is gone with the session, or will be before anybody leads
	}
	err := e.remove(ctx, "")
	e.Leave()
	if err == nil || ensemble.SessionOver(err) {
		return nil
	}
	return fmt.Errorf("the candidate of %s=%s may stay until ZooKeeper answers "+
		"or its session times out: %w", e.Resource, e.Token(), err)
}
