package guard

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// limiter gives out the slots of one protocol.
type limiter struct {
	grace  time.Duration
	counts func(waiting, unadmitted, login, admitted int) // called under the mutex after every change

	mu         sync.Mutex
	unadmitted slots
	logins     slots
	admitted   slots
	starving   map[*Seat]int // logins that the server has refused for want of room
	timer      *time.Timer   // runs while a connection waits
	closed     bool
}

// queueFactor times as many connections as there are slots may wait for one. It is well above two
// because a driver that tries TLS first connects twice, and its first connections are still
// waiting.
const queueFactor = 4

func newLimiter(max Limits, grace time.Duration) *limiter {
	return &limiter{
		grace:      grace,
		unadmitted: newSlots(max.MaxUnadmitted, queueFactor*max.MaxUnadmitted, true),
		logins:     newSlots(max.MaxLogins, 0, true),
		admitted:   newSlots(max.MaxConnections, 0, false),
		starving:   make(map[*Seat]int),
	}
}

// resize changes how many slots there are.
func (l *limiter) resize(max Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unadmitted.max, l.unadmitted.longest = max.MaxUnadmitted, queueFactor*max.MaxUnadmitted
	l.logins.max = max.MaxLogins
	l.admitted.max = max.MaxConnections
	l.settle()
}

// room says how many connections there may be that are not admitted.
func (l *limiter) room() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d connections that are not admitted, and %d wait for room",
		l.unadmitted.max, l.unadmitted.longest)
}

// full returns the error for a client that got no slot for its session in time.
func (l *limiter) full() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return FullError{l.admitted.max}
}

// take waits for a slot. ctx must end with the connection.
func (l *limiter) take(ctx context.Context, k *slots, s *Seat) error {
	t := l.join(k, s)
	if t == nil {
		return Evicted
	}
	return l.await(ctx, k, t, nil)
}

// join begins a wait. It returns nil for a seat that is gone.
func (l *limiter) join(k *slots, s *Seat) *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.gone {
		return nil
	}
	t, out := k.join(s)
	if out != nil {
		l.end(out.seat, Crowded)
	}
	l.settle()
	return t
}

// await waits for the slot of a turn until ctx ends or a shutdown begins.
func (l *limiter) await(ctx context.Context, k *slots, t *turn, draining <-chan struct{}) error {
	err := errShutdown
	select {
	case <-t.come:
		return nil
	case <-draining:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k.leave(t)
	k.free(t.seat)
	l.settle()
	return err
}

// end takes all slots from a seat and ends its connection.
func (l *limiter) end(s *Seat, why error) {
	for _, k := range []*slots{&l.unadmitted, &l.logins} {
		if k.free(s) {
			k.vacated++
		}
	}
	s.gone = true
	s.cut(why)
}

// settle gives out free slots, and evicts while a connection waits.
func (l *limiter) settle() {
	now := time.Now()
	for l.step(now) {
	}
	if l.counts != nil {
		login := len(l.logins.held)
		unadmitted := len(l.unadmitted.held) - login
		l.counts(len(l.unadmitted.queue), unadmitted, login, len(l.admitted.held))
	}
	if len(l.unadmitted.queue)+len(l.logins.queue)+len(l.starving) > 0 && l.timer == nil && !l.closed {
		l.timer = time.AfterFunc(max(l.grace/4, time.Millisecond), l.again)
	}
}

// step gives out one slot or evicts one connection, and reports whether it did.
func (l *limiter) step(now time.Time) bool {
	for _, k := range []*slots{&l.unadmitted, &l.logins, &l.admitted} {
		starving := k == &l.logins && len(l.starving) > 0
		if len(k.queue) == 0 {
			k.vacated = 0
		}
		if !k.full() && k.grant(func(s *Seat) bool { return !starving || l.starving[s] > 0 }) {
			return true
		}
		if len(k.queue) == 0 && !starving || !k.evicting {
			continue
		}
		if s := k.stalled(now, l.grace); s != nil {
			l.end(s, Evicted)
			return true
		}
	}
	return false
}

// again settles once more when the timer fires: a connection may have used up the grace.
func (l *limiter) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	l.settle()
}

// starve counts n more waits of a seat for room on the server.
func (l *limiter) starve(s *Seat, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.starving[s] += n; l.starving[s] == 0 {
		delete(l.starving, s)
	}
	l.settle()
}

// close stops the timer. All connections have left by then.
func (l *limiter) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.timer != nil {
		l.timer.Stop()
	}
}

// FullError means that all slots for admitted sessions are taken.
type FullError struct{ Max int }

func (e FullError) Error() string {
	return fmt.Sprintf("the guard has its %d admitted sessions already", e.Max)
}

// AtMost returns how many there are.
func (e FullError) AtMost() int { return e.Max }

// Unwrap returns Full, by which it is counted.
func (e FullError) Unwrap() error { return Full }
