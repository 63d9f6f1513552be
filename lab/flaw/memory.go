package flaw

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// memory keeps marks and sessions in the guard's process, and has no coordinator. It stands for a
// fence in a proxy's cache, or in an UNLOGGED table: it does everything that the real one does,
// until it is restarted and accepts the first token that it sees.
type memory struct {
	end End

	mu       sync.Mutex
	marks    map[fence.Resource]marks.Mark
	sessions map[entry]fence.Token
}

// entry is a session under a resource.
type entry struct {
	session  marks.SessionID
	resource fence.Resource
}

func newMemory(end End) *memory {
	return &memory{
		end: end, marks: map[fence.Resource]marks.Mark{}, sessions: map[entry]fence.Token{},
	}
}

// Register implements marks.Store.
func (m *memory) Register(
	_ context.Context, s marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range claims {
		mark, ok := m.marks[c.Resource]
		if !ok {
			mark = marks.Mark{Resource: c.Resource, Confirmed: true}
		}
		if st, err := compare(c, mark); err != nil || st.Next != marks.Admitted {
			return st, err
		}
		if len(m.others(c)) > 0 {
			return marks.Registration{Next: marks.MustRevoke, Claim: c, Mark: mark}, nil
		}
	}
	for _, c := range claims {
		m.sessions[entry{s, c.Resource}] = c.Token
	}
	return marks.Registration{Next: marks.Admitted}, nil
}

// Raise implements marks.Store.
func (m *memory) Raise(
	ctx context.Context, _ marks.SessionID, c fence.Claim, confirm marks.Confirm,
) (marks.Mark, error) {
	c, err := confirm(ctx, m.mark(c.Resource))
	if err != nil {
		return marks.Mark{}, err
	}
	before := m.mark(c.Resource)
	if _, err := compare(c, before); err != nil {
		return before, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.marks[c.Resource] = marks.Mark{
		Resource: c.Resource, Token: c.Token, Issuer: c.Issuer, Holder: c.Holder,
		Raised: time.Now(), Confirmed: true,
	}
	return before, nil
}

func (m *memory) mark(r fence.Resource) marks.Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mark, ok := m.marks[r]; ok {
		return mark
	}
	return marks.Mark{Resource: r, Confirmed: true}
}

// Revoke implements marks.Store.
func (m *memory) Revoke(ctx context.Context, _ marks.SessionID, c fence.Claim) (int, error) {
	m.mu.Lock()
	_, err := compare(c, m.marks[c.Resource])
	others := m.others(c)
	m.mu.Unlock()
	if err != nil || len(others) == 0 {
		return 0, err
	}
	var sessions []marks.SessionID
	for _, e := range others {
		sessions = append(sessions, e.session)
	}
	if err := m.end(ctx, sessions); err != nil {
		return 0, refusal.Unrevoked(c, err.Error(), err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range others {
		delete(m.sessions, e)
	}
	return len(others), nil
}

// others returns the sessions of the resource that are not under the claim. The caller holds the
// lock.
func (m *memory) others(c fence.Claim) []entry {
	var all []entry
	for e, token := range m.sessions {
		if e.resource == c.Resource && token != c.Token {
			all = append(all, e)
		}
	}
	return all
}

// Release implements marks.Store. It trusts the guard that the sessions are gone.
func (m *memory) Release(
	_ context.Context, all ...marks.Departed,
) (leaving []marks.SessionID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range all {
		for _, r := range d.Resources {
			delete(m.sessions, entry{d.Session, r})
		}
	}
	return nil, nil
}

// Marks implements marks.Store.
func (m *memory) Marks(_ context.Context, only ...fence.Resource) ([]marks.Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []marks.Mark
	for _, mark := range m.marks {
		if len(only) == 0 || slices.Contains(only, mark.Resource) {
			all = append(all, mark)
		}
	}
	slices.SortFunc(all, func(a, b marks.Mark) int { return cmp.Compare(a.Resource, b.Resource) })
	return all, nil
}
