package ensemble

import (
	"context"

	"github.com/go-zookeeper/zk"
)

// watched arms a watch and returns what was read with it; the channel receives or closes when the watch fires or the
// connection breaks, which proves nothing: read again. A watch that is already armed is shared, not armed twice, so
// that nothing accumulates while nothing changes.
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

// armed returns the watch under the key, or nil when there is none or it has fired. The path is noted for
// firedWatches.
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

// WatchData arms a watch on a znode; when it does not exist the error is zk.ErrNoNode, and there is no watch.
func (s *Session) WatchData(ctx context.Context, at string) (Node, <-chan zk.Event, error) {
	return watched(ctx, s, "data "+at, at, getter(at), func(conn *zk.Conn) (Node, <-chan zk.Event, error) {
		data, stat, armed, err := conn.GetW(at)
		return Node{data, stat}, armed, err
	})
}

// WatchChildren arms a watch on the names of the children; without the znode the error is zk.ErrNoNode, and there is no watch.
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

// WatchExistence arms a watch on the coming and going of a znode.
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
