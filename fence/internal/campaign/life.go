package campaign

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Life is the life of a session, and the candidates that share it. It is over once, for good: then
// its candidates are gone or will be before anybody else leads.
type Life[E Candidate] struct {
	Timeout time.Duration // as the coordinator granted it
	nudge   chan struct{} // asks for a beat now
	over    chan struct{} // closed when the session is over

	mu        sync.Mutex
	cause     error         // once over
	confirmed time.Time     // start of the last round trip that renewed the session
	beaten    chan struct{} // closed after the next beat
	known     map[string]E  // by key: all that may exist in the session
}

// NewLife begins the life of a session that a round trip has opened. confirmed is when that began.
func NewLife[E Candidate](timeout time.Duration, confirmed time.Time) *Life[E] {
	return &Life[E]{
		Timeout: timeout, confirmed: confirmed,
		nudge: make(chan struct{}, 1), over: make(chan struct{}), beaten: make(chan struct{}),
		known: map[string]E{},
	}
}

func (l *Life[E]) life() *Life[E] { return l }

// Over returns a channel that is closed when the session is over.
func (l *Life[E]) Over() <-chan struct{} { return l.over }

// Ended returns why the session is over, or nil.
func (l *Life[E]) Ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// End makes the session over, and with it its candidates. The first cause stays.
func (l *Life[E]) End(cause error) {
	l.mu.Lock()
	if l.cause == nil {
		l.cause = cause
		close(l.over)
	}
	cause = l.cause
	all := slices.Collect(maps.Values(l.known))
	l.mu.Unlock()
	for _, e := range all {
		e.standing().Lose(cause)
	}
}

// know makes the session know a candidate.
func (l *Life[E]) know(e E) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[e.standing().Key] = e
}

// Knows returns whether the key belongs to a candidate that has not left.
func (l *Life[E]) Knows(key string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.known[key]
	return known
}

// Forget makes the session forget a candidate that is gone from the coordinator.
func (l *Life[E]) Forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, key)
}

// Leave makes the session forget a candidate and beat, to delete it.
func (l *Life[E]) Leave(key string) {
	l.Forget(key)
	l.BeatNow()
}

// Enrolled lists the candidates with a token.
func (l *Life[E]) Enrolled() []E {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []E
	for _, e := range l.known {
		if e.standing().Token() != 0 {
			all = append(all, e)
		}
	}
	return all
}

// Suspend records for all terms that the coordinator is out of reach.
func (l *Life[E]) Suspend() {
	for _, e := range l.Enrolled() {
		e.standing().Suspend()
	}
}

// Confirm records a round trip that renewed the session.
func (l *Life[E]) Confirm(start time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed = start
}

// BeatNow asks for a beat now.
func (l *Life[E]) BeatNow() {
	select {
	case l.nudge <- struct{}{}:
	default:
	}
}

// Renewed waits until the session was renewed less than half a session timeout ago, and returns
// when that round trip began. A term that begins then has half of its time left at least.
func (l *Life[E]) Renewed(ctx context.Context) (time.Time, error) {
	for {
		l.mu.Lock()
		confirmed, beaten := l.confirmed, l.beaten
		l.mu.Unlock()
		if time.Since(confirmed) < l.Timeout/2 {
			return confirmed, nil
		}
		l.BeatNow()
		select {
		case <-beaten:
		case <-l.over:
			return time.Time{}, l.Ended()
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}

// wake wakes the calls that wait for a beat, and returns how long ago the session was renewed.
func (l *Life[E]) wake() (stale time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.beaten)
	l.beaten = make(chan struct{})
	return time.Since(l.confirmed)
}
