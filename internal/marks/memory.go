package marks

import (
	"sync"

	"github.com/ringfence/ringfence/fence"
)

// memory is what this process has seen of a store's marks. It may refuse early, and it is a lower bound when a store
// has lost a mark; it never admits.
type memory struct {
	mu    sync.Mutex
	marks map[fence.Resource]Mark
}

func (m *memory) get(r fence.Resource) (Mark, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	mark, ok := m.marks[r]
	return mark, ok
}

// over returns what this process has seen of a resource when that counts more than what the store has now: the store's
// mark is not confirmed, is lower, and no operator has adopted it since.
func (m *memory) over(r fence.Resource, now Mark) (Mark, bool) {
	seen, ok := m.get(r)
	switch {
	case !ok || now.Confirmed:
		return Mark{}, false
	case now.Token != 0 && (now.Issuer != seen.Issuer || now.Adoption != "" && now.Adoption != seen.Adoption):
		return Mark{}, false
	}
	return seen, seen.Token.Compare(now.Token) >= 0
}

// learn keeps the newest mark. One of another issuer or adoption replaces it, for an operator has adopted the resource.
// An unconfirmed mark is not learned: it may be what is left of a higher one, and must not be taken for what this process
// has seen itself.
func (m *memory) learn(mark Mark) {
	if !mark.Confirmed {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.marks[mark.Resource]
	if ok && old.Issuer == mark.Issuer && old.Adoption == mark.Adoption && old.Token.Compare(mark.Token) >= 0 {
		return
	}
	if !ok && mark.Token == 0 {
		return
	}
	if m.marks == nil {
		m.marks = make(map[fence.Resource]Mark)
	}
	m.marks[mark.Resource] = mark
}
