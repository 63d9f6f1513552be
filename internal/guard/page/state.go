package page

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

// State is what one message to the page holds.
type State struct {
	Guard   string    `json:"guard"`
	Started time.Time `json:"started"`
	Now     time.Time `json:"now"` // ages are relative to it, not to the clock of the browser

	Stores    []StoreState    `json:"stores"`
	Resources []Resource      `json:"resources"` // those whose marks changed last, the latest first
	Sessions  []guard.Session `json:"sessions"`  // those that were admitted last, the latest first
	Open      int             `json:"open"`      // sessions of this guard
	Refusals  []guard.Refusal `json:"refusals"`  // the latest first
}

// StoreState is what the page knows of a store as a whole.
type StoreState struct {
	guard.Location
	Error    string    `json:"error"`
	Read     time.Time `json:"read_at,omitzero"` // when the marks were read last
	Marks    int       `json:"marks"`
	Sessions int       `json:"sessions"` // of all guards
}

const (
	maxSessions = 100 // rows of sessions
	maxRefusals = 100 // rows of refusals
	maxLanes    = 8   // resources that have their steps in a message
)

// state returns what the page shows now.
func (p *Page) state() State {
	s := State{
		Guard: p.guard, Started: p.started, Now: time.Now(),
		Stores: []StoreState{}, Resources: []Resource{}, Sessions: []guard.Session{}, Refusals: []guard.Refusal{},
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
	s.Sessions = latest(s.Sessions, maxSessions, func(o guard.Session) time.Time { return o.Since },
		func(o guard.Session) string { return o.Holder })
	for i := range s.Sessions {
		s.Sessions[i].Holder = short(s.Sessions[i].Holder)
	}
	s.Refusals = latest(s.Refusals, maxRefusals, func(r guard.Refusal) time.Time { return r.At },
		func(r guard.Refusal) string { return r.Holder })
	for i := range s.Refusals {
		s.Refusals[i].Holder, s.Refusals[i].Message = short(s.Refusals[i].Holder), short(s.Refusals[i].Message)
	}
	p.addMarks(&s)
	return s
}

// addMarks adds what the page knows of the stores' marks.
func (p *Page) addMarks(s *State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, from := range p.stores {
		s.Stores = append(s.Stores, StoreState{
			from.Location, from.err, from.read, from.marks, from.sessions,
		})
		for _, r := range from.resources {
			row := *r
			row.Location = from.Location
			s.Resources = append(s.Resources, row)
		}
	}
	s.Resources = latest(s.Resources, maxResources, func(r Resource) time.Time { return r.Raised },
		func(r Resource) string { return r.Store + r.Database + string(r.Resource) })
	for i := range s.Resources {
		if i < maxLanes {
			s.Resources[i].Steps = slices.Clone(s.Resources[i].Steps)
		} else {
			s.Resources[i].Steps = []Step{}
		}
	}
}
