package guard

import (
	"context"
	"errors"
	"time"
)

// Seat is a connection's hold on the guard's slots. Its Protocol tells it what the connection waits for, and asks it
// for the next slot. There are three kinds:
//
//	unadmitted  from accept until the session is admitted
//	login       besides that, while a login is under way on a leg to the server
//	admitted    from admission until the session has ended
//
// Who is not admitted cannot take an admitted slot. When somebody waits for one of the other two, connections that have
// kept the guard waiting for their client for the grace are evicted: the context of Serve ends with the cause Evicted.
// Nobody is evicted for what the server or an admission takes. A Seat may be used from any goroutine.
type Seat struct {
	door    *door
	address string // of the client, without the port
	cut     context.CancelCauseFunc

	// The mutex of the door guards these.
	since  time.Time     // when the wait for the client began; zero when there is none
	waited time.Duration // how long it was when Working stopped it
	gone   bool
}

// arrive makes the seat of a new connection, which has to wait for its slot. cut ends the connection's context.
func (d *door) arrive(address string, cut context.CancelCauseFunc) (*Seat, *turn) {
	s := &Seat{door: d, address: address, cut: cut}
	return s, d.join(&d.unadmitted, s)
}

// enter waits for the slot. ctx is the connection's. A shutdown ends the wait.
func (s *Seat) enter(ctx context.Context, t *turn, draining <-chan struct{}) error {
	return s.door.await(ctx, &s.door.unadmitted, t, draining)
}

// Waiting begins a new wait for the client.
func (s *Seat) Waiting() {
	s.door.mu.Lock()
	defer s.door.mu.Unlock()
	s.since = time.Now()
}

// Working stops the wait for the client: the server or the guard has the next move.
func (s *Seat) Working() {
	s.door.mu.Lock()
	defer s.door.mu.Unlock()
	if !s.since.IsZero() {
		s.waited = time.Since(s.since)
	}
	s.since = time.Time{}
}

// Resume goes on with the wait that Working stopped, for a client whose move has brought it no nearer to admission.
func (s *Seat) Resume() {
	s.door.mu.Lock()
	defer s.door.mu.Unlock()
	if s.since.IsZero() {
		s.since = time.Now().Add(-s.waited)
		s.door.settle()
	}
}

// Login waits for a login slot, in the order of arrival. Every leg to the server that is not admitted needs one.
func (s *Seat) Login(ctx context.Context) error { return s.door.take(ctx, &s.door.logins, s) }

// EndLogin gives the login slot back. The leg is closed by then.
func (s *Seat) EndLogin() {
	s.door.mu.Lock()
	defer s.door.mu.Unlock()
	if s.door.logins.free(s) {
		s.door.settle()
	}
}

// Admit trades the slots of a connection that is not admitted for an admitted one. It waits until there is one, for the
// sessions that this admission has ended may be leaving yet. After ctx it returns a FullError.
func (s *Seat) Admit(ctx context.Context) error {
	d := s.door
	err := d.take(ctx, &d.admitted, s)
	if errors.Is(err, context.DeadlineExceeded) {
		return FullError{d.admitted.most}
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unadmitted.free(s)
	d.logins.free(s)
	d.settle()
	return nil
}

// Leave gives every slot back. It may be called twice.
func (s *Seat) Leave() {
	s.door.mu.Lock()
	defer s.door.mu.Unlock()
	s.since = time.Time{}
	for _, k := range []*slots{&s.door.unadmitted, &s.door.logins, &s.door.admitted} {
		k.free(s)
	}
	s.door.settle()
}
