package guard

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Seat holds a connection's slots. The Protocol tells it whether the connection waits for its
// client, and asks it for the next slot. There are three kinds of slot:
//
//	unadmitted  from accept until the session is admitted
//	login       in addition, while a login is under way at the server
//	admitted    from admission until the session has ended
//
// A client that is not admitted cannot take an admitted slot. When a connection waits for one of
// the other two kinds, connections that have kept the guard waiting for their client for the grace
// are evicted: the context of Serve ends with the cause Evicted. The time that the server or an
// admission takes evicts nobody. A Seat may be used from any goroutine.
type Seat struct {
	limiter *limiter
	conn    *connection
}

// arrive makes the seat of a new connection and puts it into the queue. cut ends the connection's
// context.
func (l *limiter) arrive(address string, cut context.CancelCauseFunc) (*Seat, *turn) {
	s := &Seat{l, &connection{address: address, cut: cut}}
	return s, l.join(&l.unadmitted, s.conn)
}

// enter waits for the first slot, until ctx ends or the guard shuts down.
func (s *Seat) enter(ctx context.Context, t *turn, draining <-chan struct{}) error {
	return s.limiter.await(ctx, &s.limiter.unadmitted, t, draining)
}

// Waiting starts a new wait for the client.
func (s *Seat) Waiting() {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.conn.since = time.Now()
}

// Working stops the wait for the client: it is the turn of the server or the guard.
func (s *Seat) Working() {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	if !s.conn.since.IsZero() {
		s.conn.waited = time.Since(s.conn.since)
	}
	s.conn.since = time.Time{}
}

// Resume continues the wait that Working stopped. It is for a client that has sent something, but
// is no closer to admission.
func (s *Seat) Resume() {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	if s.conn.since.IsZero() {
		s.conn.since = time.Now().Add(-s.conn.waited)
		s.limiter.settle()
	}
}

// Login waits for a login slot. Every upstream connection that is not admitted needs one.
func (s *Seat) Login(ctx context.Context) error {
	return s.limiter.take(ctx, &s.limiter.logins, s.conn)
}

// Starve says that the server has refused this login for want of room. Until fed is called, others
// get no login slot, and those that have kept the guard waiting for their client for the grace are
// evicted even if there are slots left. Call it only for claims that the coordinator has confirmed;
// Starve()() evicts, and keeps no other client from a slot.
func (s *Seat) Starve() (fed func()) {
	s.limiter.starve(s.conn, 1)
	return sync.OnceFunc(func() { s.limiter.starve(s.conn, -1) })
}

// EndLogin returns the login slot. Close the upstream connection first.
func (s *Seat) EndLogin() {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	if s.limiter.logins.free(s.conn) {
		s.limiter.settle()
	}
}

// Admit trades the other slots for an admitted one. It waits for one until ctx ends, because the
// sessions that this admission has ended may still be leaving; then it returns a FullError.
func (s *Seat) Admit(ctx context.Context) error {
	l := s.limiter
	err := l.take(ctx, &l.admitted, s.conn)
	if errors.Is(err, context.DeadlineExceeded) {
		return l.full()
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unadmitted.free(s.conn)
	l.logins.free(s.conn)
	l.settle()
	return nil
}

// Leave returns every slot. It may be called twice.
func (s *Seat) Leave() {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.conn.since = time.Time{}
	for _, k := range []*slots{&s.limiter.unadmitted, &s.limiter.logins, &s.limiter.admitted} {
		k.free(s.conn)
	}
	s.limiter.settle()
}
