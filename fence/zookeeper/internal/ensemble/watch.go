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
	if armed := s.armed(key); armed != nil {
		value, err := Retry(ctx, s, plain)
		return value, armed, err
	}
	type both struct {
		value T
		fired <-chan zk.Event
	}
	b, err := Retry(ctx, s, func(conn *zk.Conn) (both, error) {
		s.arming(path)
		value, fired, err := arm(conn)
		s.arm(key, watch{path, fired}, err) // also if the caller has stopped waiting
		return both{value, fired}, err
	})
	return b.value, b.fired, err
}

// watch is a watch that the session has set. It fires at the latest when its connection breaks, so
// one that has not fired is set on the present connection.
type watch struct {
	path  string
	event <-chan zk.Event
}

func (w watch) fired() bool {
	select {
	case <-w.event: // a nil channel is never ready
		return true
	default:
		return false
	}
}

// armed returns the watch under the key, or nil if there is none or it has fired.
func (s *Session) armed(key string) <-chan zk.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, set := s.watches[key]
	if set && w.fired() {
		s.dropLocked(key)
		return nil
	}
	return w.event
}

// arming records that the path may have one more watch from now on, for firedWatches.
func (s *Session) arming(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths[path]++
}

// arm records the watch, unless the request that was to set it has failed. Of two watches on one
// znode it records one: both fire at once.
func (s *Session) arm(key string, w watch, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, set := s.watches[key]
	switch {
	case err != nil, set && !old.fired():
		s.releaseLocked(w.path)
		return
	case set:
		s.dropLocked(key)
	}
	s.watches[key] = w
	if len(s.watches) <= s.prune {
		return
	}
	for key, w := range s.watches {
		if w.fired() {
			s.dropLocked(key)
		}
	}
	s.prune = max(2*len(s.watches), minPrune)
}

// minPrune is how many watches are few.
const minPrune = 64

// dropLocked forgets a watch that has fired.
func (s *Session) dropLocked(key string) {
	path := s.watches[key].path
	delete(s.watches, key)
	s.releaseLocked(path)
}

// releaseLocked records that the path has one watch fewer.
func (s *Session) releaseLocked(path string) {
	if s.paths[path]--; s.paths[path] == 0 {
		delete(s.paths, path)
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

// watchExistence sets a watch that fires when the znode is created or deleted.
func (s *Session) watchExistence(ctx context.Context, at string) (bool, <-chan zk.Event, error) {
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
