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
	asked map[fence.Resource]asking
	looks map[fence.Resource]time.Time
}

// mayLook is true once a second for each resource.
func (m *memory) mayLook(r fence.Resource) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if now.Sub(m.looks[r]) < time.Second {
		return false
	}
	if m.looks == nil {
		m.looks = make(map[fence.Resource]time.Time)
	}
	m.looks[r] = now
	return true
}

// asking is when the coordinator was last asked about a stale token, and about which.
type asking struct {
	token fence.Token
	at    time.Time
}

const (
	askAgain = 5 * time.Second       // about the same token
	askNext  = 20 * time.Millisecond // about another one
)

// mayAsk is true so often that a storm of stale clients, which mostly have one token, does not reach the coordinator, and
// that a leader is not told that it is deposed because an older one has just been.
func (m *memory) mayAsk(c fence.Claim) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, now := m.asked[c.Resource], time.Now()
	wait := askNext
	if last.token == c.Token {
		wait = askAgain
	}
	if now.Sub(last.at) <= wait {
		return false
	}
	if m.asked == nil {
		m.asked = make(map[fence.Resource]asking)
	}
	m.asked[c.Resource] = asking{c.Token, now}
	return true
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
