package ensemble

import (
	"context"
	"errors"
	"path"

	"github.com/go-zookeeper/zk"
)

// Stat returns nil for a znode that does not exist.
func (s *Session) Stat(ctx context.Context, at string) (*zk.Stat, error) {
	return Retry(ctx, s, func(conn *zk.Conn) (*zk.Stat, error) {
		exists, stat, err := conn.Exists(at)
		if err != nil || !exists {
			return nil, err
		}
		return stat, nil
	})
}

// List returns the names of the children. The error is zk.ErrNoNode if there is no such znode.
func (s *Session) List(ctx context.Context, at string) ([]string, error) {
	return Retry(ctx, s, func(conn *zk.Conn) ([]string, error) {
		names, _, err := conn.Children(at)
		return names, err
	})
}

// Children lists the children of a znode, and returns the transaction that last created or deleted
// one. If the znode does not exist, there are none.
func (s *Session) Children(
	ctx context.Context, at string,
) (names []string, changed int64, err error) {
	type list struct {
		names []string
		stat  *zk.Stat
	}
	l, err := Retry(ctx, s, func(conn *zk.Conn) (list, error) {
		names, stat, err := conn.Children(at)
		return list{names, stat}, err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, 0, nil
	case err != nil:
		return nil, 0, s.Client.Explain(at, err)
	}
	return l.names, l.stat.Pzxid, nil
}

// Node is a znode's content.
type Node struct {
	Data []byte
	Stat *zk.Stat
}

// Get returns zk.ErrNoNode if there is no such znode.
func (s *Session) Get(ctx context.Context, at string) (Node, error) {
	return Retry(ctx, s, getter(at))
}

func getter(at string) func(*zk.Conn) (Node, error) {
	return func(conn *zk.Conn) (Node, error) {
		data, stat, err := conn.Get(at)
		return Node{data, stat}, err
	}
}

// Sync makes later reads in this session at least as fresh as the ensemble's leader at the time of
// the call.
func (s *Session) Sync(ctx context.Context) error {
	_, err := Retry(ctx, s, func(conn *zk.Conn) (string, error) { return conn.Sync(s.Client.Path) })
	return err
}

// Delete deletes a znode, if it exists.
func (s *Session) Delete(ctx context.Context, at string) error {
	_, err := Retry(ctx, s, func(conn *zk.Conn) (any, error) { return nil, conn.Delete(at, -1) })
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return s.Client.Explain(at, err)
}

// Multi makes a transaction that may be repeated.
func (s *Session) Multi(ctx context.Context, ops ...any) error {
	_, err := Retry(ctx, s, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(ops...)
	})
	return err
}

// Ensure creates a persistent znode and its parents if they are missing.
func (s *Session) Ensure(ctx context.Context, at string) error {
	plain := func(conn *zk.Conn) (string, error) {
		return conn.Create(at, nil, zk.FlagPersistent, s.ACL)
	}
	err := s.make(ctx, at, plain)
	if !errors.Is(err, zk.ErrNoNode) || path.Dir(at) == at {
		return err
	}
	if err := s.Ensure(ctx, path.Dir(at)); err != nil {
		return err
	}
	return s.make(ctx, at, plain)
}

// EnsureContainer creates a container, which the ensemble deletes some time after its last child,
// and its parents if they are missing. It needs a server of version 3.5.3 or later.
func (s *Session) EnsureContainer(ctx context.Context, at string) error {
	if err := s.Ensure(ctx, path.Dir(at)); err != nil {
		return err
	}
	return s.make(ctx, at, func(conn *zk.Conn) (string, error) {
		return conn.CreateContainer(at, nil, zk.FlagContainer, s.ACL)
	})
}

func (s *Session) make(
	ctx context.Context, at string, create func(*zk.Conn) (string, error),
) error {
	_, err := Retry(ctx, s, create)
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	return s.Client.Explain(at, err)
}

// GetACL returns an empty ACL for a znode that does not exist.
func (s *Session) GetACL(ctx context.Context, at string) ([]zk.ACL, error) {
	acl, err := Retry(ctx, s, func(conn *zk.Conn) ([]zk.ACL, error) {
		acl, _, err := conn.GetACL(at)
		return acl, err
	})
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return acl, err
}

// CheckExists makes a transaction fail unless the znode exists.
func CheckExists(at string) *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: at, Version: -1}
}
