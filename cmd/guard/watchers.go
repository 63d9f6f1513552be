package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/page"
	"github.com/ringfence/ringfence/internal/marks"
)

// watchers hear of what happens in all stores of the guard.
type watchers struct {
	status    *page.Page      // nil if nobody could look at it
	elections *marks.Follower // nil if there is no coordinator
}

// follower returns what follows elections, or nil if there are none.
func (c *config) follower(o *observer, log *slog.Logger) *marks.Follower {
	if c.Coordinator == "" {
		return nil
	}
	return &marks.Follower{Observer: o, Log: log}
}

// watch has the watchers, and the audit, hear of the events of a store until unwatch is called.
func (w watchers) watch(
	of server, a *marks.Admission, audit *guard.Audit, home bool,
) (unwatch func()) {
	database := of.Database()
	hear := []func(marks.Event){audit.In(database)}
	var ends []func()
	if w.status != nil {
		shown, hide := w.status.Watch(guard.Source{
			Place:    guard.Place{Store: of.name(), Database: database},
			Sessions: a.Sessions, Refusals: refusalsOf(audit, home),
			Marks: func(ctx context.Context) ([]marks.Mark, error) {
				all, err := a.Store.Marks(ctx)
				if err != nil {
					err = errors.New(of.scrub(err.Error()))
				}
				return all, err
			},
		})
		hear, ends = append(hear, shown), append(ends, hide)
	}
	if w.elections != nil {
		w.elections.Add(a)
		ends = append(ends, func() { w.elections.Remove(a) })
		hear = append(hear, func(e marks.Event) {
			if e.Kind == marks.Opened {
				w.elections.Follow(e.Claim.Resource, e.Claim.Token)
			}
		})
	}
	a.Notify = func(e marks.Event) {
		for _, h := range hear {
			h(e)
		}
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// refusalsOf returns the refusals that the page shows for a store. Those of all databases of a server
// come with the home database, because the others come and go.
func refusalsOf(audit *guard.Audit, home bool) func() []guard.Refusal {
	if home {
		return audit.Refusals
	}
	return func() []guard.Refusal { return nil }
}
