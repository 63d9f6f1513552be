package markstest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Model is the reference store: a database in memory with real sessions, their registry, and the
// marks. It does in plain Go what the SQL and the Lua of the other stores must do.
type Model struct {
	flaw flaw // a deliberate error, for the contract's own test

	mu        sync.Mutex
	run       int // the number of this run of the server
	lastID    int64
	live      map[marks.SessionID]*ModelConn
	written   []string
	resources map[fence.Resource]*record
	audit     map[fence.Resource][]Adoption
}

// record is the state of one resource.
type record struct {
	mark     marks.Mark
	run      int                             // the run on which the mark was raised or confirmed
	version  int                             // counts the writes of the mark
	sessions map[marks.SessionID]fence.Claim // the registry
}

// NewModel returns an empty database with the store installed.
func NewModel() *Model {
	return &Model{
		run: 1, live: make(map[marks.SessionID]*ModelConn),
		resources: make(map[fence.Resource]*record), audit: make(map[fence.Resource][]Adoption),
	}
}

var (
	_ marks.Store = (*Model)(nil)
	_ marks.Admin = (*Model)(nil)
)

// Register implements marks.Store.
func (m *Model) Register(
	_ context.Context, s marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Run != m.runName() && m.flaw != takesAnyRun {
		return marks.Registration{}, refusal.Setup("the session is of another run", "connect again")
	}
	for _, c := range claims {
		if err := m.judge(c); err != nil {
			return marks.Registration{Claim: c, Mark: m.mark(c.Resource)}, err
		}
	}
	for _, c := range claims {
		mark := m.mark(c.Resource)
		another := c.Candidate != "" && c.Candidate != mark.Candidate && m.flaw != forgetsCandidates
		if !mark.Confirmed || m.higher(c.Token, mark.Token) || another {
			return marks.Registration{Next: marks.MustRaise, Claim: c, Mark: mark}, nil
		}
	}
	for _, c := range claims {
		if len(m.others(c)) > 0 && m.flaw != admitsBesideOthers {
			return marks.Registration{Next: marks.MustRevoke, Claim: c, Mark: m.mark(c.Resource)}, nil
		}
	}
	for _, c := range claims {
		m.resources[c.Resource].sessions[s] = c
	}
	return marks.Registration{
		Next: marks.Admitted, Claim: claims[0], Mark: m.mark(claims[0].Resource),
	}, nil
}

// Raise implements marks.Store.
func (m *Model) Raise(
	ctx context.Context, _ marks.SessionID, c fence.Claim, confirm marks.Confirm,
) (marks.Mark, error) {
	for {
		before, run, version := m.basis(c.Resource)
		confirmed, err := confirm(ctx, before)
		if err != nil {
			return before, err
		}
		if before, changed, err := m.raise(confirmed, run, version); !changed {
			return before, err
		}
	}
}

// basis returns the state that a raise depends on.
func (m *Model) basis(name fence.Resource) (mark marks.Mark, run, version int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mark(name), m.run, m.record(name).version
}

func (m *Model) raise(
	c fence.Claim, run, version int,
) (before marks.Mark, changed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.mark(c.Resource)
	if err := m.judge(c); err != nil && !errors.Is(err, fence.ErrStale) && m.flaw != raiseLowers {
		return before, false, err
	}
	r := m.record(c.Resource)
	if (run != m.run || version != r.version) && m.flaw != raisesLate {
		return before, true, nil
	}
	if before.Below(c) && m.flaw != raiseLowers && m.flaw != forgetsCandidates {
		r.mark.RolledBack = m.flaw != forgetsRollback
		return before, false, refusal.RolledBack(c, before.Token)
	}
	if c.Token != r.mark.Token || r.version == 0 {
		r.mark = marks.Mark{Resource: c.Resource, Token: c.Token, Issuer: c.Issuer,
			Holder: c.Holder, Raised: time.Now(), Adoption: r.mark.Adoption}
	}
	if c.Candidate != "" {
		r.mark.Candidate = c.Candidate
	}
	r.version++
	r.run = m.run
	return before, false, nil
}

// Revoke implements marks.Store.
func (m *Model) Revoke(_ context.Context, _ marks.SessionID, c fence.Claim) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.judge(c); err != nil {
		return 0, err
	}
	if m.mark(c.Resource).Token != c.Token {
		return 0, errors.New("markstest: revoke before raise")
	}
	others := m.others(c)
	for _, s := range others {
		if m.flaw != forgetsOnly {
			m.kill(s)
		}
		delete(m.resources[c.Resource].sessions, s)
	}
	return len(others), nil
}

// Release implements marks.Store. It lets nobody go.
func (m *Model) Release(
	_ context.Context, all ...marks.Departed,
) (leaving []marks.SessionID, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ended := false
	for _, d := range all {
		ended = ended || m.live[d.Session] == nil
	}
	for _, d := range all {
		if m.live[d.Session] != nil && m.flaw != releasesLive && !(ended && m.flaw == releasesAlike) {
			continue
		}
		for _, r := range d.Resources {
			delete(m.record(r).sessions, d.Session)
		}
	}
	return nil, nil
}

// Sweep removes the records of sessions that have ended, as a store may do at any time.
func (m *Model) Sweep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.resources {
		maps.DeleteFunc(r.sessions, func(s marks.SessionID, _ fence.Claim) bool {
			return m.live[s] == nil
		})
	}
}

// Marks implements marks.Store.
func (m *Model) Marks(_ context.Context, only ...fence.Resource) ([]marks.Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []marks.Mark
	for name, r := range m.resources {
		if len(only) > 0 && !slices.Contains(only, name) || r.version == 0 {
			continue
		}
		mark := m.mark(name)
		if len(only) == 0 {
			mark.Sessions = len(r.sessions)
		}
		found = append(found, mark)
	}
	slices.SortFunc(found, func(a, b marks.Mark) int {
		return strings.Compare(string(a.Resource), string(b.Resource))
	})
	return found, nil
}

// Adopt implements marks.Admin.
func (m *Model) Adopt(_ context.Context, c fence.Claim, by string) (marks.Mark, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.mark(c.Resource)
	r := m.record(c.Resource)
	for s := range r.sessions {
		if m.flaw != adoptSpares {
			m.kill(s)
		}
		delete(r.sessions, s)
	}
	r.version++
	r.mark = marks.Mark{
		Resource: c.Resource, Token: c.Token, Issuer: c.Issuer, Holder: c.Holder,
		Raised: time.Now(), Adoption: strconv.Itoa(r.version),
	}
	r.run = m.run
	m.audit[c.Resource] = append(m.audit[c.Resource], Adoption{
		By: by, Before: before.Token, After: c.Token, From: before.Issuer, To: c.Issuer,
	})
	return before, nil
}

// Restart ends every session and starts another run of the server with its data: no mark is
// confirmed.
func (m *Model) Restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s := range m.live {
		m.kill(s)
	}
	m.run++
	m.lastID = 0
}

// judge refuses a claim that meets the mark of another issuer, or a higher one.
func (m *Model) judge(c fence.Claim) error {
	mark := m.mark(c.Resource)
	switch {
	case mark.Issuer != "" && mark.Issuer != c.Issuer:
		return refusal.OtherIssuer(c, mark.Token, mark.Issuer)
	case mark.RolledBack:
		return refusal.RolledBack(c, mark.Token)
	case m.higher(mark.Token, c.Token):
		return refusal.Stale(c, mark.Token, mark.Holder, mark.Raised)
	}
	return nil
}

// higher compares tokens. A flaw makes it compare them as floats or as text.
func (m *Model) higher(a, b fence.Token) bool {
	switch m.flaw {
	case comparesFloats:
		return float64(a) > float64(b)
	case comparesText:
		return a.String() > b.String()
	}
	return a.Compare(b) > 0
}

// mark returns the mark as Register does. The mark of an unused resource is 0 and confirmed.
func (m *Model) mark(name fence.Resource) marks.Mark {
	r := m.resources[name]
	if r == nil || r.version == 0 {
		return marks.Mark{Resource: name, Confirmed: true, Continued: true}
	}
	mark := r.mark
	mark.Confirmed, mark.Continued = r.run == m.run, true
	return mark
}

func (m *Model) record(name fence.Resource) *record {
	r := m.resources[name]
	if r == nil {
		r = &record{sessions: make(map[marks.SessionID]fence.Claim)}
		m.resources[name] = r
	}
	return r
}

// others lists the sessions that are not under the claim.
func (m *Model) others(c fence.Claim) []marks.SessionID {
	var others []marks.SessionID
	for s, under := range m.record(c.Resource).sessions {
		if under.Token != c.Token || under.Issuer != c.Issuer {
			others = append(others, s)
		}
	}
	return others
}

// runName names this run of the model's server.
func (m *Model) runName() string { return "run-" + strconv.Itoa(m.run) }

// kill ends a session and drops its open transaction. The caller holds mu.
func (m *Model) kill(s marks.SessionID) {
	if c := m.live[s]; c != nil {
		c.open = nil
		delete(m.live, s)
	}
}
