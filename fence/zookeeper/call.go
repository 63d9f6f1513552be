package zookeeper

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// do runs one request of the library, which knows no context: a request that is not answered lasts until the
// connection breaks, or until close. So it runs on a goroutine that the session owns, and close waits for. When ctx
// ends first, the request may still be carried out.
func do[T any](ctx context.Context, s *session, request func(*zk.Conn) (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	var none T
	if err := s.begin(); err != nil {
		return none, err
	}
	replies := make(chan reply, 1)
	go func() {
		defer s.calls.Done()
		value, err := request(s.conn)
		replies <- reply{value, err}
	}()
	select {
	case r := <-replies:
		if errors.Is(r.err, zk.ErrSessionExpired) {
			s.end(errExpired)
		}
		return r.value, r.err
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case <-s.over:
		_, _, cause := s.state()
		return none, cause
	}
}

// begin counts a call among what close waits for.
func (s *session) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return s.cause
	}
	s.calls.Add(1)
	return nil
}

// read is do for a request that may be repeated: it is, in the same session, until it is answered.
func read[T any](ctx context.Context, s *session, request func(*zk.Conn) (T, error)) (T, error) {
	for {
		turn := s.turns()
		value, err := do(ctx, s, request)
		if !unanswered(err) || over(err) {
			return value, err
		}
		s.c.failed(err)
		if err := s.after(ctx, turn); err != nil {
			return value, err
		}
	}
}

func (s *session) turns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn
}

// close ends the session at the server, if it can be told within a second, and waits for every goroutine. Safe to
// call more than once.
func (s *session) close() { s.once.Do(s.shut) }

func (s *session) shut() {
	s.mu.Lock()
	up := s.up
	s.closed = true
	s.endLocked(errEnded)
	if s.late != nil {
		s.late.Stop()
	}
	s.mu.Unlock()
	if !up {
		s.hangUp()
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		s.conn.Close() // waits for the reply, a second at most
	}()
	select {
	case <-s.loop:
	case <-time.After(closeWait):
	}
	s.hangUp()
	<-told
	<-s.loop
	s.calls.Wait()
}

// hangUp ends dialling and the connection.
func (s *session) hangUp() {
	s.cancel(errEnded)
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
}

// watched arms a watch and returns what was read with it; the channel receives or closes when the watch fires or the
// connection breaks, which proves nothing: read again. A watch that is already armed is shared, not armed twice, so
// that nothing accumulates while nothing changes.
func watched[T any](ctx context.Context, s *session, key, path string,
	plain func(*zk.Conn) (T, error), arm func(*zk.Conn) (T, <-chan zk.Event, error),
) (T, <-chan zk.Event, error) {
	if armed := s.armed(key, path); armed != nil {
		value, err := read(ctx, s, plain)
		return value, armed, err
	}
	type both struct {
		value T
		fired <-chan zk.Event
	}
	b, err := read(ctx, s, func(conn *zk.Conn) (both, error) {
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

// armed returns the watch under the key, or nil when there is none or it has fired. The path is noted for farewell.
func (s *session) armed(key, path string) <-chan zk.Event {
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
