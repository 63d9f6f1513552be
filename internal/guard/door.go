package guard

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// door holds the slots of one protocol.
type door struct {
	grace  time.Duration
	counts func(waiting, unadmitted, login, admitted int) // told under the mutex, after every change

	mu         sync.Mutex
	unadmitted slots
	logins     slots
	admitted   slots
	timer      *time.Timer // runs while somebody waits
	closed     bool
}

// queueFactor times as many connections as have room may wait for it, which costs them next to nothing. It is well above
// two: a driver that tries TLS first connects twice, and its first connections are still in the queue.
const queueFactor = 4

func newDoor(connections, unadmitted, logins int, grace time.Duration) *door {
	return &door{
		grace:      grace,
		unadmitted: newSlots(unadmitted, queueFactor*unadmitted, true),
		logins:     newSlots(logins, 0, true),
		admitted:   newSlots(connections, 0, false),
	}
}

// take waits for a slot. ctx is the connection's, or one that ends with it.
func (d *door) take(ctx context.Context, k *slots, s *Seat) error {
	t := d.join(k, s)
	if t == nil {
		return Evicted
	}
	return d.await(ctx, k, t, nil)
}

// join begins a wait; nil for a seat that is gone.
func (d *door) join(k *slots, s *Seat) *turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.gone {
		return nil
	}
	t, out := k.join(s)
	if out != nil {
		d.end(out.seat, Crowded)
	}
	d.settle()
	return t
}

// await waits for what join has begun, in the worst case until ctx ends or a shutdown begins.
func (d *door) await(ctx context.Context, k *slots, t *turn, draining <-chan struct{}) error {
	err := errShutdown
	select {
	case <-t.come:
		return nil
	case <-draining:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k.leave(t)
	k.free(t.seat)
	d.settle()
	return err
}

// end takes everything from a seat and ends its connection.
func (d *door) end(s *Seat, why error) {
	for _, k := range []*slots{&d.unadmitted, &d.logins} {
		if k.free(s) {
			k.vacated++
		}
	}
	s.gone = true
	s.cut(why)
}

// settle gives out what is free and evicts whom it can while somebody waits.
func (d *door) settle() {
	now := time.Now()
	for d.step(now) {
	}
	if d.counts != nil {
		d.counts(len(d.unadmitted.queue), len(d.unadmitted.held)-len(d.logins.held), len(d.logins.held), len(d.admitted.held))
	}
	if len(d.unadmitted.queue)+len(d.logins.queue) > 0 && d.timer == nil && !d.closed {
		d.timer = time.AfterFunc(max(d.grace/4, time.Millisecond), d.again)
	}
}

// step does one thing for whoever waits, and tells whether there was one to do.
func (d *door) step(now time.Time) bool {
	for _, k := range []*slots{&d.unadmitted, &d.logins, &d.admitted} {
		if len(k.queue) == 0 {
			k.vacated = 0
			continue
		}
		if !k.full() {
			k.grant()
			return true
		}
		if !k.evicting {
			continue
		}
		if s := k.stalled(now, d.grace); s != nil {
			d.end(s, Evicted)
			return true
		}
	}
	return false
}

// again looks whether somebody has used up the grace.
func (d *door) again() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.timer = nil
	d.settle()
}

// close stops the timer; everybody has left.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
}

// FullError says that all slots for admitted sessions are taken.
type FullError struct{ Most int }

func (e FullError) Error() string {
	return fmt.Sprintf("the guard has its %d admitted sessions already", e.Most)
}

// Unwrap has it counted as Full.
func (e FullError) Unwrap() error { return Full }
