package marks

import (
	"sync"

	"github.com/ringfence/ringfence/fence"
)

// memory holds the marks that this process has seen in a store. A guard may use it to refuse early,
// and to notice that the store has lost a mark (counts). It never admits.
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

// forget forgets all marks.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.marks)
}

// drop forgets a mark, unless this process has seen another one since.
func (m *memory) drop(mark Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now, ok := m.marks[mark.Resource]; ok && now.Token == mark.Token {
		delete(m.marks, mark.Resource)
	}
}

// over returns the mark that this process has seen if it overrides the store's: it is higher, or
// the store's is not confirmed, and no operator has adopted the resource since. A confirmed mark
// can be lower, too: a store that has gone back without a trace, such as a standby that was
// promoted by deleting standby.signal, confirms what it has. before is what this process had seen
// when the store was asked. A mark that was raised since then is not lost: the store was read
// before that.
func (m *memory) over(r fence.Resource, now, before Mark) (Mark, bool) {
	seen, ok := m.get(r)
	switch order := seen.Token.Compare(now.Token); {
	case !ok || order < 0:
		return Mark{}, false
	case !seen.comparable(now):
		return Mark{}, false
	default:
		seen.Lost = order > 0 && before.Token == seen.Token
		return seen, order > 0 || !now.Confirmed
	}
}

// comparable reports whether a mark of the store counts as this one does: under one issuer, and no
// operator has adopted the resource since.
func (m Mark) comparable(now Mark) bool {
	return now.Token == 0 ||
		now.Issuer == m.Issuer && (now.Adoption == "" || now.Adoption == m.Adoption)
}

// learn keeps the newest mark. One of another issuer or adoption replaces it, because an operator
// has adopted the resource; then learn returns the one that it replaces, and true. It ignores an
// unconfirmed mark, which may be what is left of a higher one.
func (m *memory) learn(mark Mark) (before Mark, adopted bool) {
	if !mark.Confirmed {
		return Mark{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.marks[mark.Resource]
	if ok && old.Issuer == mark.Issuer && old.Adoption == mark.Adoption &&
		old.Token.Compare(mark.Token) >= 0 {
		return old, false
	}
	if !ok && mark.Token == 0 {
		return Mark{}, false
	}
	if m.marks == nil {
		m.marks = make(map[fence.Resource]Mark)
	}
	m.marks[mark.Resource] = mark
	return old, ok && mark.Adoption != "" && mark.Adoption != old.Adoption
}
