package redis

import (
	"maps"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// seen keeps what a registration that wants a raise has seen, so that the raise need not look: while scripts of older
// leaders run, every answer of Redis takes seconds. It is used once, and before the raise is confirmed; a raise that finds
// that something has changed since looks again.
type seen struct {
	mu  sync.Mutex
	all map[newcomer]reply
}

type newcomer struct {
	session  marks.Session
	resource fence.Resource
}

func (s *seen) put(n newcomer, r reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[newcomer]reply)
	}
	s.all[n] = r
}

func (s *seen) take(n newcomer) (r reply, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok = s.all[n]
	delete(s.all, n)
	return r, ok
}

// forget drops what no raise has taken.
func (s *seen) forget(of marks.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.all, func(n newcomer, _ reply) bool { return n.session == of })
}
