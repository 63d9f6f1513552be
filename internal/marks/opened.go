package marks

import "sync"

// opened holds the sessions that were admitted and are not released yet, so that Notify hears of
// the end of each of them once.
type opened struct {
	mu  sync.Mutex
	all map[Session]bool
}

func (o *opened) add(s Session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[Session]bool)
	}
	o.all[s] = true
}

// remove reports whether the session was there.
func (o *opened) remove(s Session) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	there := o.all[s]
	delete(o.all, s)
	return there
}
