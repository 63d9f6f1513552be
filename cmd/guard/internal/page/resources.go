package page

import (
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

const (
	maxResources = 50 // resources of a store: those whose marks changed last
	maxSteps     = 40 // steps of a resource
)

// Resource is a resource with its marks in all stores, who leads it, and its last terms, the oldest
// first. The sessions of a mark are those of all guards, when the marks were read last.
type Resource struct {
	Resource fence.Resource  `json:"resource"`
	Leader   *Election       `json:"leader"` // nil: the coordinator was not asked yet, or there is none
	Marks    []guard.MarkRow `json:"marks"`
	Terms    []Term          `json:"terms"`
	Idle     bool            `json:"idle"` // nothing is to be said of it
}

// Term is a term that has raised a mark.
type Term struct {
	Token  fence.Token `json:"token"`
	Holder string      `json:"holder"`
	At     time.Time   `json:"at"` // when it raised its first mark
	// when it ended before the next one; zero if nobody has seen that
	End time.Time `json:"end,omitzero"`
}

// marked is a mark in one store, with its last raises, the oldest first.
type marked struct {
	marks.Mark
	steps []Term
}

// resources holds the resources of a store whose marks changed last.
type resources map[fence.Resource]*marked

// raised enters a raise by this guard, and reports whether it is news.
func (r resources) raised(c fence.Claim, at time.Time) bool {
	return r.step(marks.Mark{
		Resource: c.Resource, Token: c.Token, Issuer: c.Issuer, Holder: c.Holder, Raised: at,
	})
}

// names returns the resources that are here.
func (r resources) names() map[fence.Resource]bool {
	names := make(map[fence.Resource]bool, len(r))
	for name := range r {
		names[name] = true
	}
	return names
}

// worthShowing returns those of all marks that changed last, and those of known resources. It sorts
// all.
func worthShowing(all []marks.Mark, known map[fence.Resource]bool) []marks.Mark {
	some := slices.Clone(latest(all, maxResources, func(m marks.Mark) time.Time { return m.Raised },
		func(m marks.Mark) string { return string(m.Resource) }))
	for _, m := range all[len(some):] {
		if known[m.Resource] {
			some = append(some, m)
		}
	}
	return some
}

// read enters marks as the store has them, and reports whether they are news.
func (r resources) read(some []marks.Mark) (news bool) {
	for _, m := range some {
		news = r.step(m) || news
		if known := r[m.Resource]; known != nil && known.Sessions != m.Sessions {
			known.Sessions = m.Sessions
			news = true
		}
	}
	return news
}

// step enters a mark, and reports whether it is news. A read may have begun before a raise, so it
// takes no token back, unless an operator has adopted the resource for another issuer.
func (r resources) step(m marks.Mark) bool {
	if m.Token == 0 {
		return false
	}
	known := r[m.Resource]
	if known != nil && known.Issuer == m.Issuer && m.Token.Compare(known.Token) <= 0 {
		return false
	}
	if known == nil {
		if known = r.room(m); known == nil {
			return false
		}
	}
	m.Sessions = known.Sessions // read enters them
	m.Holder = short(m.Holder)
	known.Mark = m
	if len(known.steps) >= maxSteps {
		known.steps = slices.Delete(known.steps, 0, len(known.steps)-maxSteps+1)
	}
	known.steps = append(known.steps, Term{Token: m.Token, Holder: known.Holder, At: m.Raised})
	return true
}

// room returns a place for a new resource, or nil if all that are there changed later. The one that
// changed first gives its place up.
func (r resources) room(m marks.Mark) *marked {
	if len(r) >= maxResources {
		var oldest *marked
		for _, other := range r {
			if oldest == nil || other.Raised.Before(oldest.Raised) {
				oldest = other
			}
		}
		if m.Raised.Before(oldest.Raised) {
			return nil
		}
		delete(r, oldest.Resource)
	}
	fresh := &marked{}
	r[m.Resource] = fresh
	return fresh
}
