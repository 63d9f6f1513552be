package guard

import (
	"context"
	"errors"
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
	starving   map[*connection]int // logins that the server has refused for want of room
	timer      *time.Timer         // runs while a connection waits
	closed     bool
}

// errShutdown ends the wait of connections that have no slot yet.
var errShutdown = errors.New("the guard is shutting down")

func newLimiter(max Limits, grace time.Duration) *limiter {
	return &limiter{
		grace:      grace,
		unadmitted: newSlots(max.MaxUnadmitted, max.waiting(), true),
		logins:     newSlots(max.MaxLogins, 0, true),
		admitted:   newSlots(max.MaxConnections, 0, false),
		starving:   make(map[*connection]int),
	}
}

// resize changes how many slots there are.
func (l *limiter) resize(max Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unadmitted.max, l.unadmitted.longest = max.MaxUnadmitted, max.waiting()
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
func (l *limiter) take(ctx context.Context, k *slots, c *connection) error {
	t := l.join(k, c)
	if t == nil {
		return Evicted
	}
	return l.await(ctx, k, t, nil)
}

// join begins a wait. It returns nil for a connection that is gone.
func (l *limiter) join(k *slots, c *connection) *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone {
		return nil
	}
	t, out := k.join(c)
	if out != nil {
		l.end(out.connection, Crowded)
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
	k.free(t.connection)
	l.settle()
	return err
}

// end takes all slots from a connection and ends it.
func (l *limiter) end(c *connection, why error) {
	for _, k := range []*slots{&l.unadmitted, &l.logins} {
		if k.free(c) {
			k.vacated++
		}
	}
	c.gone = true
	c.cut(why)
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
		if !k.full() && k.grant(func(c *connection) bool { return !starving || l.starving[c] > 0 }) {
			return true
		}
		if len(k.queue) == 0 && !starving || !k.evicting {
			continue
		}
		if c := k.stalled(now, l.grace); c != nil {
			l.end(c, Evicted)
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

// starve counts n more waits of a connection for room on the server.
func (l *limiter) starve(c *connection, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.starving[c] += n; l.starving[c] == 0 {
		delete(l.starving, c)
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
