package ensemble

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// watched sets a watch and returns what it read with it. The channel receives or closes when the
// watch fires or the connection breaks. Neither proves a change: read again. A watch that is
// already set is shared, so nothing piles up while nothing changes.
func watched[T any](ctx context.Context, s *Session, key, path string,
	plain func(*zk.Conn) (T, error), arm func(*zk.Conn) (T, <-chan zk.Event, error),
) (T, <-chan zk.Event, error) {
	if armed := s.armed(key, path); armed != nil {
		value, err := Retry(ctx, s, plain)
		return value, armed, err
	}
	type both struct {
		value T
		fired <-chan zk.Event
	}
	b, err := Retry(ctx, s, func(conn *zk.Conn) (both, error) {
		value, fired, err := arm(conn)
		return both{value, fired}, err
	})
	if err == nil {
		s.mu.Lock()
		s.watches[key] = b.fired
		s.mu.Unlock()
	}
	return b.value, b.fired, err
}

// armed returns the watch under the key, or nil if there is none or it has fired. It records the
// path for firedWatches.
func (s *Session) armed(key, path string) <-chan zk.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths[path] = true
	armed := s.watches[key]
	select {
	case <-armed: // a nil channel is never ready
		delete(s.watches, key)
		return nil
	default:
		return armed
	}
}

// WatchData reads a znode and sets a watch on it. If the znode does not exist, the error is
// zk.ErrNoNode and there is no watch.
func (s *Session) WatchData(ctx context.Context, at string) (Node, <-chan zk.Event, error) {
	return watched(ctx, s, "data "+at, at, getter(at),
		func(conn *zk.Conn) (Node, <-chan zk.Event, error) {
			data, stat, armed, err := conn.GetW(at)
			return Node{data, stat}, armed, err
		})
}

// WatchChildren lists the children and sets a watch on their names. If the znode does not exist,
// the error is zk.ErrNoNode and there is no watch.
func (s *Session) WatchChildren(ctx context.Context, at string) ([]string, <-chan zk.Event, error) {
	plain := func(conn *zk.Conn) ([]string, error) {
		names, _, err := conn.Children(at)
		return names, err
	}
	arm := func(conn *zk.Conn) ([]string, <-chan zk.Event, error) {
		names, _, armed, err := conn.ChildrenW(at)
		return names, armed, err
	}
	return watched(ctx, s, "children "+at, at, plain, arm)
}

// WatchExistence sets a watch that fires when the znode is created or deleted.
func (s *Session) WatchExistence(ctx context.Context, at string) (bool, <-chan zk.Event, error) {
	plain := func(conn *zk.Conn) (bool, error) {
		exists, _, err := conn.Exists(at)
		return exists, err
	}
	arm := func(conn *zk.Conn) (bool, <-chan zk.Event, error) {
		exists, _, armed, err := conn.ExistsW(at)
		return exists, armed, err
	}
	return watched(ctx, s, "existence "+at, at, plain, arm)
}
