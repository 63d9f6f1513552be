package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
)

// session is a row that all candidates of a Coordinator share, so a process that stands in a
// thousand elections renews one row. It is over once, for good: then its candidates are gone or
// will be before anybody else leads, and the next campaign opens a new session.
type session struct {
	c       *Coordinator
	id      string
	ttl     time.Duration
	nudge   chan struct{} // asks for a beat now
	peek    chan struct{} // asks for a look now
	over    chan struct{} // closed when the session is over
	notices *subscription

	mu        sync.Mutex
	cause     error                 // once over
	confirmed time.Time             // start of the last round trip that renewed the session
	beaten    chan struct{}         // closed after the next beat
	known     map[string]*candidate // by id: all that may exist in the session
}

// newID returns an id that nobody else has.
func newID() string { return strings.ToLower(rand.Text()) }

// sessionOf returns the current session, or opens one.
func (c *Coordinator) sessionOf(ctx context.Context) (*session, error) {
	var s *session
	select {
	case s = <-c.sessions:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { c.sessions <- s }()
	if s != nil && s.ended() == nil {
		return s, nil
	}
	fresh, err := c.openSession(ctx)
	if err != nil {
		return nil, err
	}
	s = fresh
	// The campaign that calls is still counted in work.
	s.notices = c.listener.subscribe(sessionChannel+s.id, s.notice)
	c.work.Go(s.keep)
	c.work.Go(s.look)
	return s, nil
}

// openSession opens a session. One whose reply was lost runs out by itself.
func (c *Coordinator) openSession(ctx context.Context) (*session, error) {
	return ask(ctx, c, "open a session",
		func(ctx context.Context, conn *pgx.Conn) (*session, error) {
			s := &session{
				c: c, id: newID(), ttl: c.timeout, confirmed: time.Now(),
				nudge: make(chan struct{}, 1), peek: make(chan struct{}, 1),
				over: make(chan struct{}), beaten: make(chan struct{}),
				known: map[string]*candidate{},
			}
			_, err := conn.Exec(ctx, "select ringfence_elections.open($1, $2)",
				s.id, s.ttl.Milliseconds())
			return s, err
		})
}

// ended returns why the session is over, or nil.
func (s *session) ended() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// end makes the session over, and with it its candidates. The first cause stays.
func (s *session) end(cause error) {
	s.mu.Lock()
	if s.cause == nil {
		s.cause = cause
		close(s.over)
	}
	cause = s.cause
	all := slices.Collect(maps.Values(s.known))
	s.mu.Unlock()
	for _, e := range all {
		e.lose(cause)
	}
}

// keep beats until the session is over, or the Coordinator closed; then it ends the session at the
// server.
func (s *session) keep() {
	defer s.close()
	for s.ended() == nil {
		start := time.Now()
		err := s.beat(start)
		s.settle(err)
		again := start.Add(s.ttl / 4)
		if err != nil {
			again = start.Add(s.ttl / 20)
		}
		next := time.NewTimer(max(time.Until(again), s.ttl/100))
		select {
		case <-next.C:
		case <-s.nudge:
		case <-s.over:
		case <-s.c.ctx.Done():
			s.end(fmt.Errorf("%w: %w", fence.ErrResigned, ErrClosed))
		}
		next.Stop()
	}
}

// beat renews the session and reads its candidates in the same call, so those that it finds are
// there as long as the session.
func (s *session) beat(start time.Time) error {
	members := s.enrolled()
	found, err := once(s.c.ctx, s.c.beats, s.ttl/4,
		func(ctx context.Context, conn *pgx.Conn) (places, error) {
			return readPlaces(ctx, conn, "beat($1)", s.id)
		})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.confirmed = start
	s.mu.Unlock()
	for _, e := range members {
		if at, there := found.of(e); there {
			e.confirm(start)
			s.place(e, at)
		} else {
			e.lose(fence.ErrDeposed)
		}
	}
	return s.sweep(found)
}

// settle acts on the result of a beat: it ends or suspends the terms after a failure, and wakes the
// calls that wait for a beat.
func (s *session) settle(err error) {
	s.mu.Lock()
	stale := time.Since(s.confirmed)
	close(s.beaten)
	s.beaten = make(chan struct{})
	s.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, errOver):
		s.end(errOver)
	case errors.Is(err, errNotInstalled):
		s.end(fmt.Errorf("%w: %w", fence.ErrExpired, err))
	case stale >= s.ttl:
		s.end(fmt.Errorf("%w: Postgres has not answered for %s", fence.ErrExpired, s.ttl))
	case s.c.ctx.Err() == nil:
		s.c.log.Debug("the session could not be renewed", "error", err)
		for _, e := range s.enrolled() {
			e.suspend()
		}
	}
}

// enrolled lists the candidates whose token is known.
func (s *session) enrolled() []*candidate {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*candidate
	for _, e := range s.known {
		if e.token != 0 {
			all = append(all, e)
		}
	}
	return all
}

// sweep deletes rows of the session that belong to no candidate: one that left while the server was
// out of reach, or an enrolment that arrived after its campaign had given up. Without the sweep
// such a row would hold up the election for as long as the session is renewed.
func (s *session) sweep(found places) error {
	var strangers []string
	s.mu.Lock()
	for id := range found.at {
		if s.known[id] == nil {
			strangers = append(strangers, id)
		}
	}
	s.mu.Unlock()
	if strangers == nil {
		return nil
	}
	_, err := once(s.c.ctx, s.c.beats, s.ttl/4,
		func(ctx context.Context, conn *pgx.Conn) (struct{}, error) {
			_, err := conn.Exec(ctx, "select ringfence_elections.leave($1, $2)", s.id, strangers)
			return struct{}{}, err
		})
	return err
}

// renewed waits until the session was renewed less than half a session timeout ago, and returns
// when that round trip began. A term that begins then has half of its time left at least.
func (s *session) renewed(ctx context.Context) (time.Time, error) {
	for {
		s.mu.Lock()
		confirmed, beaten := s.confirmed, s.beaten
		s.mu.Unlock()
		if time.Since(confirmed) < s.ttl/2 {
			return confirmed, nil
		}
		kick(s.nudge)
		select {
		case <-beaten:
		case <-s.over:
			return time.Time{}, s.ended()
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// kick makes a channel ready.
func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// closeTime bounds the last round trip of a session. If it fails, the session runs out.
const closeTime = time.Second

// close ends the session at the server, and with it all candidates.
func (s *session) close() {
	s.notices.stop()
	_, _ = once(context.WithoutCancel(s.c.ctx), s.c.beats, closeTime,
		func(ctx context.Context, conn *pgx.Conn) (struct{}, error) {
			_, err := conn.Exec(ctx, "select ringfence_elections.close($1)", s.id)
			return struct{}{}, err
		})
}
