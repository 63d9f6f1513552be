package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
)

// acknowledgeTries bounds the race with the acknowledgement of an older term, which goes with its session.
const acknowledgeTries = 10

// Acknowledge implements fence.Backing: in one transaction it checks that the own candidate exists, removes what an
// older term left, and makes the leader znode.
func (h *hold) Acknowledge(ctx context.Context) error {
	at := path.Join(h.dir, leaderName)
	for range acknowledgeTries {
		n, err := h.s.get(ctx, at)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return h.s.c.explain(at, err)
		}
		there := err == nil
		if there && n.stat.EphemeralOwner == h.s.id && parse[leaderData](n.data).Token == h.token {
			return h.deposed(ctx) // done, by a try whose reply was lost, or by the caller before
		}
		err = h.publish(ctx, at, there)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrNoNode), unanswered(err) && !over(err):
			if err := h.deposed(ctx); err != nil {
				return err
			}
		default:
			return h.s.c.explain(at, err)
		}
	}
	return fmt.Errorf("acknowledge %s=%s: %s keeps changing", h.resource, h.token, at)
}

func (h *hold) publish(ctx context.Context, at string, replace bool) error {
	ops := []any{&zk.CheckVersionRequest{Path: h.path(), Version: -1}}
	if replace {
		ops = append(ops, &zk.DeleteRequest{Path: at, Version: -1})
	}
	ops = append(ops, &zk.CreateRequest{
		Path: at, Data: encode(leaderData{h.token, h.holder}), Acl: h.s.c.acl, Flags: zk.FlagEphemeral,
	})
	_, err := do(ctx, h.s, func(conn *zk.Conn) ([]zk.MultiResponse, error) { return conn.Multi(ops...) })
	return err
}

// deposed returns fence.ErrDeposed when the own candidate is gone.
func (h *hold) deposed(ctx context.Context) error {
	stat, err := h.s.stat(ctx, h.path())
	switch {
	case err != nil:
		return err
	case stat == nil || stat.Czxid != int64(h.token):
		return fence.ErrDeposed
	}
	return nil
}
