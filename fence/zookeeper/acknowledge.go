package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/ensemble/election"
)

// acknowledgeTries bounds the race with the acknowledgement of an older term, which disappears with
// its session.
const acknowledgeTries = 10

// Acknowledge implements fence.Backing. One transaction checks that the own candidate exists,
// removes the acknowledgement of an older term, and creates the leader znode.
func (b *backing) Acknowledge(ctx context.Context) error {
	at := path.Join(b.dir, election.LeaderName)
	for range acknowledgeTries {
		n, err := b.s.Get(ctx, at)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return b.s.Client().Explain(at, err)
		}
		there := err == nil
		if there && n.Stat.EphemeralOwner == b.s.ID() &&
			election.Parse[election.Acknowledgement](n.Data).Token == b.token {
			return b.deposed(ctx) // already acknowledged: by an earlier call, or its reply was lost
		}
		err = b.publish(ctx, at, there)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode),
			ensemble.Unanswered(err) && !ensemble.SessionOver(err):
			if err := b.deposed(ctx); err != nil {
				return err
			}
		default:
			return b.s.Client().Explain(at, err)
		}
	}
	return fmt.Errorf("acknowledge %s=%s: %s keeps changing", b.resource, b.token, at)
}

func (b *backing) publish(ctx context.Context, at string, replace bool) error {
	ops := []any{&zk.CheckVersionRequest{Path: b.path(), Version: -1}}
	if replace {
		ops = append(ops, &zk.DeleteRequest{Path: at, Version: -1})
	}
	ops = append(ops, &zk.CreateRequest{
		Path: at, Data: election.Encode(election.Acknowledgement{Token: b.token, Holder: b.holder}),
		Acl: b.s.Client().ACL(), Flags: zk.FlagEphemeral,
	})
	_, err := ensemble.Do(ctx, b.s, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(ops...)
	})
	return err
}

// deposed returns fence.ErrDeposed if the own candidate is gone.
func (b *backing) deposed(ctx context.Context) error {
	stat, err := b.s.Stat(ctx, b.path())
	switch {
	case err != nil:
		return err
	case stat == nil || stat.Czxid != int64(b.token):
		return fence.ErrDeposed
	}
	return nil
}
