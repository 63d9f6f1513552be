package ensemble

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// Do runs one request of the library, which knows no context: a request that is not answered lasts until the
// connection breaks, or until close. So it runs on a goroutine that the session owns, and close waits for. When ctx
// ends first, the request may still be carried out.
func Do[T any](ctx context.Context, s *Session, request func(*zk.Conn) (T, error)) (T, error) {
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
		_, _, cause := s.State()
		return none, cause
	}
}

// begin counts a call among what close waits for.
func (s *Session) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return s.cause
	}
	s.calls.Add(1)
	return nil
}

// Retry is Do for a request that may be repeated: it is, in the same session, until it is answered.
func Retry[T any](ctx context.Context, s *Session, request func(*zk.Conn) (T, error)) (T, error) {
	for {
		connects := s.Connects()
		value, err := Do(ctx, s, request)
		if !Unanswered(err) || SessionOver(err) {
			return value, err
		}
		s.client.noteFailure(err)
		if err := s.AwaitConnect(ctx, connects); err != nil {
			return value, err
		}
	}
}

// Connects is how many times the session has come up.
func (s *Session) Connects() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connects
}

// Close ends the session at the server, if it can be told within a second, and waits for every goroutine. Safe to
// call more than once.
func (s *Session) Close() { s.once.Do(s.shut) }

func (s *Session) shut() {
	s.mu.Lock()
	up := s.up
	s.closed = true
	s.endLocked(ErrEnded)
	if s.expiry != nil {
		s.expiry.Stop()
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
func (s *Session) hangUp() {
	s.cancel(ErrEnded)
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
}
