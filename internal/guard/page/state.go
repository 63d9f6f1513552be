package page

import (
	"slices"
	"time"
)

// State is what one message to the page holds.
type State struct {
	Guard   string    `json:"guard"`
	Started time.Time `json:"started"`
	Now     time.Time `json:"now"` // ages are relative to it, not to the clock of the browser

	Stores    []StoreState `json:"stores"`
	Resources []Resource   `json:"resources"` // those whose marks changed last, the latest first
	Sessions  []Session    `json:"sessions"`  // the latest first
	Open      int          `json:"open"`      // sessions of this guard
	Refusals  []Refusal    `json:"refusals"`  // the latest first
}

// StoreState is what the page knows of a store as a whole.
type StoreState struct {
	Store    string    `json:"store"`
	Database string    `json:"database"` // empty where the server has only one
	Error    string    `json:"error"`
	Read     time.Time `json:"read_at,omitzero"` // when the marks were read last
	Marks    int       `json:"marks"`
	Sessions int       `json:"sessions"` // of all guards
}

// lanesMost is how many resources have their steps in a message.
const lanesMost = 8

// state returns what the page shows now.
func (b *board) state() State {
	s := State{
		Guard: b.guard, Started: b.started, Now: time.Now(),
		Stores: []StoreState{}, Resources: []Resource{}, Sessions: []Session{}, Refusals: []Refusal{},
	}
	for _, from := range b.shown() {
		count, sessions := from.sessionsNow()
		s.Open += count
		s.Sessions = append(s.Sessions, sessions...)
		s.Refusals = append(s.Refusals, from.refusalsNow()...)
	}
	s.Sessions = latest(s.Sessions, sessionsShown, func(o Session) time.Time { return o.Since },
		func(o Session) string { return o.Client })
	s.Refusals = latest(s.Refusals, refusalsShown, func(r Refusal) time.Time { return r.At },
		func(r Refusal) string { return r.Client })
	b.addMarks(&s)
	return s
}

// addMarks adds what the page knows of the stores' marks.
func (b *board) addMarks(s *State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, from := range b.stores {
		s.Stores = append(s.Stores, StoreState{
			from.Name, from.Database, from.err, from.read, from.marks, from.sessions,
		})
		for _, r := range from.resources.all {
			row := *r
			row.Store, row.Database = from.Name, from.Database
			s.Resources = append(s.Resources, row)
		}
	}
	s.Resources = latest(s.Resources, resourcesMost, func(r Resource) time.Time { return r.Raised },
		func(r Resource) string { return r.Store + r.Database + string(r.Name) })
	for i := range s.Resources {
		if i < lanesMost {
			s.Resources[i].Steps = slices.Clone(s.Resources[i].Steps)
		} else {
			s.Resources[i].Steps = []Step{}
		}
	}
}
