package marks

import (
	"sync"

	"github.com/ringfence/ringfence/fence"
)

// Looks keeps what a registration that needs a raise has read, so that the raise need not read it
// again: a round trip, and seconds while scripts of older leaders keep Redis busy. A raise takes
// the entry before it is confirmed. If something has changed since, the raise reads again.
type Looks[T any] struct {
	mu  sync.Mutex
	all map[look]T
}

type look struct {
	session  SessionID
	resource fence.Resource
}

// Put keeps what the registration of a session has read. Whoever registers raises next.
func (l *Looks[T]) Put(of SessionID, r fence.Resource, read T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[look]T)
	}
	l.all[look{of, r}] = read
}

// Pop returns what a registration has read, once.
func (l *Looks[T]) Pop(of SessionID, r fence.Resource) (read T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	read, ok = l.all[look{of, r}]
	delete(l.all, look{of, r})
	return read, ok
}
