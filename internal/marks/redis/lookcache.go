package redis

import (
	"maps"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// lookCache keeps what a registration that needs a raise has read, so that the raise need not run
// the look script: while scripts of older leaders run, every answer of Redis takes seconds. An
// entry is used once, before the raise is confirmed. A raise that finds that something has changed
// since then looks again.
type lookCache struct {
	mu  sync.Mutex
	all map[lookKey]reply
}

type lookKey struct {
	session  marks.Session
	resource fence.Resource
}

func (l *lookCache) put(n lookKey, r reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[lookKey]reply)
	}
	l.all[n] = r
}

func (l *lookCache) take(n lookKey) (r reply, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok = l.all[n]
	delete(l.all, n)
	return r, ok
}

// forget drops the entries of a session that no raise has taken.
func (l *lookCache) forget(of marks.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.all, func(n lookKey, _ reply) bool { return n.session == of })
}
