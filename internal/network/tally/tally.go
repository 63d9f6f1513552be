package tally

import (
	"sync"
	"time"
)

// Tally counts events that come in crowds. It reports the first of a kind at once. A minute later
// it reports how many have come since, and so on each minute until one brings none. So the numbers
// that it reports add up to the number of events.
//
// It remembers the last MaxKinds kinds. A kind for which there is no room is counted as its rest.
type Tally[K comparable, E any] struct {
	Report func(last E, n int) // called under the mutex
	Rest   func(K, E) (K, E)   // one of a few coarser kinds; unused if there are few kinds in all

	mu     sync.Mutex
	kinds  map[K]*crowd[E]
	closed bool
}

// crowd is the events of one kind.
type crowd[E any] struct {
	Counted[E]
	unreported int
	timer      *time.Timer // runs from a report until a minute without events is over
}

// Counted is how many events of a kind there were, and the last one.
type Counted[E any] struct {
	Last  E
	At    time.Time // when the last one came
	Count int
}

const (
	QuietFor = time.Minute
	MaxKinds = 100
)

// Add counts an event.
func (t *Tally[K, E]) Add(kind K, e E) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.kinds[kind]
	if c == nil && len(t.kinds) >= MaxKinds && !t.makeRoom() {
		kind, e = t.Rest(kind, e)
		c = t.kinds[kind]
	}
	if c == nil {
		c = &crowd[E]{}
		if t.kinds == nil {
			t.kinds = make(map[K]*crowd[E])
		}
		t.kinds[kind] = c
	}
	c.Last, c.At = e, time.Now()
	c.Count++
	c.unreported++
	if c.timer != nil {
		return
	}
	t.flush(c)
	if !t.closed {
		c.timer = time.AfterFunc(QuietFor, func() { t.minuteOver(c) })
	}
}

// makeRoom forgets the kind that has been quiet for longest, if there is one.
func (t *Tally[K, E]) makeRoom() bool {
	var oldest *crowd[E]
	var kind K
	for k, c := range t.kinds {
		if c.timer == nil && (oldest == nil || c.At.Before(oldest.At)) {
			oldest, kind = c, k
		}
	}
	if oldest == nil {
		return false
	}
	delete(t.kinds, kind)
	return true
}

// minuteOver ends the minute after a report.
func (t *Tally[K, E]) minuteOver(c *crowd[E]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
	case c.unreported == 0:
		c.timer = nil
	default:
		t.flush(c)
		c.timer.Reset(QuietFor)
	}
}

func (t *Tally[K, E]) flush(c *crowd[E]) {
	if c.unreported > 0 {
		t.Report(c.Last, c.unreported)
		c.unreported = 0
	}
}

// List returns what it remembers, in no order.
func (t *Tally[K, E]) List() (all []Counted[E]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.kinds {
		all = append(all, c.Counted)
	}
	return all
}

// Close reports what has not been reported. Later events are reported one by one.
func (t *Tally[K, E]) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, c := range t.kinds {
		t.flush(c)
		if c.timer != nil {
			c.timer.Stop()
			c.timer = nil
		}
	}
}
