package page

import (
	"cmp"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

// State is what one message to the page holds.
type State struct {
	Guard   string    `json:"guard"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Now     time.Time `json:"now"` // ages are relative to it, not to the clock of the browser

	Elected bool         `json:"elected"` // there is a coordinator
	Parts   []Part       `json:"parts"`
	Stores  []StoreState `json:"stores"`
	// those without a leader, then those whose marks changed last
	Resources []Resource         `json:"resources"`
	Sessions  []guard.SessionRow `json:"sessions"` // those that were admitted last, the latest first
	Open      int                `json:"open"`     // sessions of this guard
	Refusals  []guard.RefusalRow `json:"refusals"` // the latest first
}

// StoreState is what the page knows of a store as a whole.
type StoreState struct {
	guard.Location
	Error    string    `json:"error"`
	Note     string    `json:"note"`             // what is unusual about it
	Read     time.Time `json:"read_at,omitzero"` // when the marks were read last
	Marks    int       `json:"marks"`
	Sessions int       `json:"sessions"` // of all guards
}

const (
	maxSessions = 100 // rows of sessions
	maxRefusals = 100 // rows of refusals
	maxLanes    = 12  // resources that have their terms in a message
)

// state returns what the page shows now.
func (p *Page) state() State {
	s := State{
		Guard: p.Guard, Version: p.Version, Started: p.started, Now: time.Now(),
		Elected: p.Leaders != nil,
		Parts:   []Part{}, Stores: []StoreState{}, Resources: []Resource{},
		Sessions: []guard.SessionRow{}, Refusals: []guard.RefusalRow{},
	}
	p.mu.Lock()
	stores := slices.Clone(p.stores)
	p.mu.Unlock()
	for _, from := range stores {
		open := from.Sessions()
		s.Open += len(open)
		open = latest(open, maxSessions, func(o marks.OpenSession) time.Time { return o.Since },
			func(o marks.OpenSession) string { return o.Client.Address })
		s.Sessions = append(s.Sessions, guard.SessionsIn(from.Location, open)...)
		if from.Refusals != nil {
			s.Refusals = append(s.Refusals, from.Refusals()...)
		}
	}
	s.Sessions = latest(s.Sessions, maxSessions, func(o guard.SessionRow) time.Time { return o.Since },
		func(o guard.SessionRow) string { return o.Holder })
	for i := range s.Sessions {
		s.Sessions[i].Holder = short(s.Sessions[i].Holder)
	}
	s.Refusals = latest(s.Refusals, maxRefusals, func(r guard.RefusalRow) time.Time { return r.At },
		func(r guard.RefusalRow) string { return r.Holder })
	for i := range s.Refusals {
		s.Refusals[i].Holder, s.Refusals[i].Message = short(s.Refusals[i].Holder),
			short(s.Refusals[i].Message)
	}
	p.addMarks(&s)
	return s
}

// addMarks adds what the page knows of the stores' marks, and who leads.
func (p *Page) addMarks(s *State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Parts = append(s.Parts, p.parts...)
	all := map[fence.Resource]*Resource{}
	for _, from := range p.stores {
		s.Stores = append(s.Stores,
			StoreState{from.Location, from.err, from.note, from.read, from.marks, from.sessions})
		for name, m := range from.resources {
			r := all[name]
			if r == nil {
				r = &Resource{Resource: name, Terms: []Term{}}
				all[name] = r
			}
			r.Marks = append(r.Marks, guard.MarkRow{Location: from.Location, Mark: m.Mark})
			r.Terms = merged(r.Terms, m.steps)
		}
	}
	p.addElections(all)
	for _, r := range all {
		r.Idle = r.idle(s.Now)
		s.Resources = append(s.Resources, *r)
	}
	slices.SortFunc(s.Resources, func(a, b Resource) int {
		return cmp.Or(a.rank()-b.rank(), b.raised().Compare(a.raised()),
			cmp.Compare(a.Resource, b.Resource))
	})
	s.Resources = s.Resources[:min(len(s.Resources), maxResources)]
	for i := maxLanes; i < len(s.Resources); i++ {
		s.Resources[i].Terms = []Term{}
	}
}

// rank sorts: first what nobody leads, last what is idle.
func (r *Resource) rank() int {
	switch {
	case r.Idle:
		return 2
	case r.Leader != nil && r.Leader.Token == 0:
		return 0
	}
	return 1
}

// raised returns when the last of its marks was raised.
func (r *Resource) raised() (last time.Time) {
	for _, m := range r.Marks {
		if m.Raised.After(last) {
			last = m.Raised
		}
	}
	return last
}

// merged returns the terms of several stores: a term began when it raised its first mark.
func merged(all, more []Term) []Term {
	all = slices.Concat(all, more)
	slices.SortStableFunc(all, func(a, b Term) int { return a.At.Compare(b.At) })
	seen := map[fence.Token]bool{}
	all = slices.DeleteFunc(all, func(t Term) bool {
		again := seen[t.Token]
		seen[t.Token] = true
		return again
	})
	return all[max(0, len(all)-maxSteps):]
}
