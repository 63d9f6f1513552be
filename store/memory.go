package store

import (
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// memory is what this process has seen of a store's marks. It may refuse early, and it is a lower bound when a store
// has lost a mark; it never admits.
type memory struct {
	mu    sync.Mutex
	marks map[fence.Resource]Mark
	asked map[fence.Resource]time.Time
}

// mayAsk is true at most once in a while for each resource: a storm of stale clients must not reach the coordinator.
func (m *memory) mayAsk(r fence.Resource) bool {
	const while = 5 * time.Second
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); now.Sub(m.asked[r]) > while {
		if m.asked == nil {
			m.asked = make(map[fence.Resource]time.Time)
		}
		m.asked[r] = now
		return true
	}
	return false
}

func (m *memory) get(r fence.Resource) (Mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mark, ok := m.marks[r]
	return mark, ok
}

// learn keeps the newest mark; a mark of another issuer replaces, for an operator has adopted it. An unconfirmed mark
// is not learned: it may be what is left of a higher one, and must not be taken for what this process has seen itself.
func (m *memory) learn(mark Mark) {
	if mark.Token == 0 || !mark.Confirmed {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.marks[mark.Resource]
	if ok && old.Issuer == mark.Issuer && old.Token.Compare(mark.Token) >= 0 {
		return
	}
	if m.marks == nil {
		m.marks = make(map[fence.Resource]Mark)
	}
	m.marks[mark.Resource] = mark
}
