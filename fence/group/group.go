package group

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/elector"
)

// MaxName is how many characters the name of a group may have.
const MaxName = 40

// maxLeave bounds how long a member that leaves talks to the coordinator, and waits until it is
// gone.
const maxLeave = 5 * time.Second

// ErrBadName is returned for a name that a group cannot have.
var ErrBadName = errors.New("not a group's name")

// Group is a group at a coordinator. Its methods may be called from any goroutine.
type Group struct {
	name        string
	coordinator documents.Coordinator
}

// New returns the group of this name: lower-case letters, digits and '_', starting with a letter,
// at most MaxName characters. Anything else is ErrBadName. Nothing is sent.
func New(c documents.Coordinator, name string) (*Group, error) {
	if _, err := fence.ParseResource(name); err != nil || len(name) > MaxName {
		return nil, fmt.Errorf("%w: %.140q: it has lower-case letters, digits and '_', "+
			"starts with a letter, and has at most %d characters", ErrBadName, name, MaxName)
	}
	return &Group{name: name, coordinator: c}, nil
}

// Name returns the group's name.
func (g *Group) Name() string { return g.name }

// Election returns the election in which the members are the candidates.
func (g *Group) Election() fence.Resource { return fence.Resource("members_" + g.name) }

// Member is a process in a group.
type Member struct {
	ID    fence.Token // never used again; a process that comes back has another one
	Name  string      // for people
	Value []byte      // what the member says about itself, JSON
}

// holder is how a member appears in its election.
type holder struct {
	Name  string          `json:"name"`
	Tag   string          `json:"tag"` // of one Join
	Value json.RawMessage `json:"value,omitempty"`
}

// Members returns the members, the one who has been there longest first.
func (g *Group) Members(ctx context.Context) ([]Member, error) {
	candidates, err := g.coordinator.Candidates(ctx, g.Election())
	if err != nil {
		return nil, err
	}
	return members(candidates), nil
}

// Watch calls each with the members now and after every change, until ctx ends or each returns an
// error, which Watch returns. It survives disconnections. Meanwhile it calls nothing: the members
// may have changed.
func (g *Group) Watch(ctx context.Context, each func([]Member) error) error {
	return g.coordinator.Watch(ctx, g.Election(), func(candidates []elector.Candidate) error {
		return each(members(candidates))
	})
}

func members(candidates []elector.Candidate) []Member {
	all := make([]Member, 0, len(candidates))
	for _, c := range candidates {
		h := parse(c)
		all = append(all, Member{ID: c.Token, Name: h.Name, Value: h.Value})
	}
	return all
}

// parse reads a candidate. One that this package did not enrol is a member without a value.
func parse(c elector.Candidate) holder {
	var h holder
	if err := json.Unmarshal([]byte(c.Holder), &h); err != nil {
		return holder{Name: c.Holder}
	}
	return h
}

// Membership is this process's place in a group.
type Membership struct {
	group  *Group
	tag    string // of its candidates
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	id      fence.Token // 0 while it is no member
	err     error
	changed chan struct{} // closed at the next change
}

// Join makes this process a member under a name and a value, which is JSON or empty, until Leave.
// It returns at once; ID says when the coordinator knows. A member that has lost its session joins
// again by itself.
//
// Errors: elector.ErrBadHolder if name and value are too long, about 900 bytes; an error if value
// is not JSON.
func (g *Group) Join(name string, value []byte) (*Membership, error) {
	tag := rand.Text()
	text, err := json.Marshal(holder{Name: name, Tag: tag, Value: value})
	if err != nil {
		return nil, fmt.Errorf("join %s: the value is not JSON: %w", g.name, err)
	}
	if err := elector.CheckHolder(string(text)); err != nil {
		return nil, fmt.Errorf("join %s: %w", g.name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &Membership{group: g, tag: tag, cancel: cancel, changed: make(chan struct{})}
	m.work.Go(func() { m.stay(ctx, string(text)) })
	m.work.Go(func() { m.look(ctx) })
	return m, nil
}

// stay keeps a candidate in the election. That one of them wins means nothing.
func (m *Membership) stay(ctx context.Context, holder string) {
	for ctx.Err() == nil {
		term, err := m.group.coordinator.Campaign(ctx, m.group.Election(), holder)
		if err != nil {
			m.set(0, err)
			m.cancel()
			return
		}
		select {
		case <-term.Context().Done():
		case <-ctx.Done():
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxLeave)
			_ = term.Resign(limited) // otherwise the session's end takes it away
			cancel()
		}
	}
}

// look finds out under which ID the coordinator knows this process.
func (m *Membership) look(ctx context.Context) {
	err := m.group.coordinator.Watch(ctx, m.group.Election(), func(all []elector.Candidate) error {
		mine := m.candidates(all)
		var id fence.Token
		if len(mine) > 0 { // the last one: an earlier candidacy is about to be removed
			id = mine[len(mine)-1].Token
		}
		m.set(id, nil)
		return nil
	})
	if ctx.Err() == nil {
		m.set(0, err)
		m.cancel()
	}
}

// candidates returns those of all that are this process.
func (m *Membership) candidates(all []elector.Candidate) []elector.Candidate {
	return slices.DeleteFunc(all, func(c elector.Candidate) bool { return parse(c).Tag != m.tag })
}

func (m *Membership) set(id fence.Token, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.id == id && err == nil || m.err != nil {
		return
	}
	m.id, m.err = id, err
	close(m.changed)
	m.changed = make(chan struct{})
}

// ID returns the ID under which the coordinator knows this process, 0 while it knows none, and a
// channel that is closed when that changes. The error is one that trying again cannot fix, such as
// wrong credentials; this process is no member any more then.
func (m *Membership) ID() (id fence.Token, changed <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id, m.changed, m.err
}

// Leave ends the membership, and waits until the coordinator lists this process no more. It gives
// up after 5 seconds, as when the coordinator is out of reach; the session's end removes the member
// then.
func (m *Membership) Leave() {
	ctx, cancel := context.WithTimeout(context.Background(), maxLeave)
	defer cancel()
	m.cancel()
	m.work.Wait()
	m.awaitGone(ctx)
}

// awaitGone waits until the election has none of this process's candidates. A campaign that is
// cancelled while it waits only asks the session to delete its candidate.
func (m *Membership) awaitGone(ctx context.Context) {
	errGone := errors.New("gone")
	_ = m.group.coordinator.Watch(ctx, m.group.Election(), func(all []elector.Candidate) error {
		if len(m.candidates(all)) == 0 {
			return errGone
		}
		return nil
	})
}
