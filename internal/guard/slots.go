package guard

import (
	"context"
	"slices"
	"time"
)

// connection is what the slots are given to. The mutex of the limiter guards what changes.
type connection struct {
	address string // of the client, without the port
	cut     context.CancelCauseFunc

	since  time.Time     // when the wait for the client began; zero if there is none
	waited time.Duration // how long it had lasted when Seat.Working stopped it
	gone   bool
}

// slots are the slots of one kind and their queue. The mutex of the limiter guards all of it.
type slots struct {
	max      int  // slots there are
	longest  int  // the most that may wait; 0 for no limit
	evicting bool // a connection can lose its slot to one that waits

	held    map[*connection]bool
	holding count   // held, by client address
	queue   []*turn // in order of arrival
	queued  count   // in the queue, by client address
	vacated int     // slots that evictions have freed and nobody has taken yet
}

// turn is a connection's wait for a slot.
type turn struct {
	*connection
	come chan struct{} // closed when it has the slot
}

// count is a number for each client address.
type count map[string]int

func (c count) add(address string, n int) {
	if c[address] += n; c[address] == 0 {
		delete(c, address)
	}
}

func newSlots(max, longest int, evicting bool) slots {
	return slots{
		max: max, longest: longest, evicting: evicting,
		held: make(map[*connection]bool), holding: make(count), queued: make(count),
	}
}

// join puts a connection at the end of the queue. If the queue is too long, it also returns the one
// that must leave: of the address with the most in it, the one that has waited longest.
func (k *slots) join(c *connection) (t, out *turn) {
	t = &turn{c, make(chan struct{})}
	k.queue = append(k.queue, t)
	k.queued.add(c.address, 1)
	if k.longest == 0 || len(k.queue) <= k.longest {
		return t, nil
	}
	out = k.queue[0]
	for _, other := range k.queue {
		if k.queued[other.address] > k.queued[out.address] {
			out = other
		}
	}
	k.leave(out)
	return t, out
}

// leave removes a turn from the queue, if it is still there.
func (k *slots) leave(t *turn) {
	if i := slices.Index(k.queue, t); i >= 0 {
		k.queue = slices.Delete(k.queue, i, i+1)
		k.queued.add(t.address, -1)
	}
}

func (k *slots) full() bool { return len(k.held) >= k.max }

// grant gives a free slot to the next in the queue that may have one, if there is one.
func (k *slots) grant(may func(*connection) bool) bool {
	t := k.next(may)
	if t == nil {
		return false
	}
	k.leave(t)
	k.vacated = max(0, k.vacated-1)
	k.held[t.connection] = true
	k.holding.add(t.address, 1)
	close(t.come)
	return true
}

// next returns whose turn it is, or nil: the address with the fewest slots comes first, and within
// one address the connection that has waited longest. But a slot that an eviction freed goes to the
// latest one. In a crowd of stalled connections, most of those that wait will stall, too; in order,
// they would keep a good newcomer from the same address waiting until each of them was evicted.
func (k *slots) next(may func(*connection) bool) (best *turn) {
	for _, t := range k.queue {
		switch {
		case !may(t.connection):
			continue
		case best == nil:
			best = t
			continue
		}
		fewer := k.holding[t.address] - k.holding[best.address]
		if fewer < 0 || fewer == 0 && k.vacated > 0 {
			best = t
		}
	}
	return best
}

// free takes the slot from a connection, and reports whether it had one.
func (k *slots) free(c *connection) bool {
	if !k.held[c] {
		return false
	}
	delete(k.held, c)
	k.holding.add(c.address, -1)
	return true
}

// stalled returns the connection that an eviction hits, or nil. Of those that have kept the guard
// waiting for their client for the grace, it is one of the address with the most slots, and there
// the one that has done so longest.
func (k *slots) stalled(now time.Time, grace time.Duration) *connection {
	var worst *connection
	for c := range k.held {
		switch {
		case c.since.IsZero() || now.Sub(c.since) < grace:
		case worst == nil, k.holding[c.address] > k.holding[worst.address],
			k.holding[c.address] == k.holding[worst.address] && c.since.Before(worst.since):
			worst = c
		}
	}
	return worst
}
