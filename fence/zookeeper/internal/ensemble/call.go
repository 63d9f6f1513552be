package ensemble

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// Do runs one request of the library, which takes no context: without an answer, a request lasts
// until the connection breaks or the session is closed. So it runs in a goroutine of the session,
// which Close waits for. If ctx ends first, the request may still be carried out.
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

// begin counts a call that Close waits for.
func (s *Session) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return s.cause
	}
	s.calls.Add(1)
	return nil
}

// Retry is Do for a request that may be repeated. It repeats the request, in the same session,
// until there is an answer.
func Retry[T any](ctx context.Context, s *Session, request func(*zk.Conn) (T, error)) (T, error) {
	for {
		connects := s.Connects()
		value, err := Do(ctx, s, request)
		if !Unanswered(err) || SessionOver(err) {
			return value, err
		}
		s.Client.noteFailure(err)
		if err := s.AwaitConnect(ctx, connects); err != nil {
			return value, err
		}
	}
}

// Connects returns how many times the session has come up.
func (s *Session) Connects() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connects
}

// Close ends the session and waits for all of its goroutines. It gives the server a second to
// confirm. It may be called more than once.
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

// hangUp stops dialling and closes the connection.
func (s *Session) hangUp() {
	s.cancel(ErrEnded)
	s.mu.Lock()
	l := s.link
	s.mu.Unlock()
	if l != nil {
		l.Close()
	}
}
