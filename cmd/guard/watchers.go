package main

import (
	"context"
	"log/slog"

	"github.com/ringfence/ringfence/cmd/guard/internal/page"
	"github.com/ringfence/ringfence/internal/guard"
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
	logged := audit.In(of.Database())
	shown, hide := w.status.Watch(source(of, a, audit, home))
	if w.elections != nil {
		w.elections.Add(a)
	}
	a.Notify = func(e marks.Event) {
		logged(e)
		shown(e)
		if w.elections != nil && e.Kind == marks.Opened {
			w.elections.Follow(e.Claim.Resource, e.Claim.Token)
		}
	}
	return func() {
		hide()
		if w.elections != nil {
			w.elections.Remove(a)
		}
	}
}

// source returns what the page shows of a store. The refusals of all databases of a server come
// with the home database, because the others come and go.
func source(of server, a *marks.Admission, audit *guard.Audit, home bool) guard.Source {
	s := guard.Source{
		Location: guard.Location{Store: of.name(), Database: of.Database()}, Sessions: a.Sessions,
		Marks: func(ctx context.Context) ([]marks.Mark, error) {
			all, err := a.Store.Marks(ctx)
			return all, of.scrubbed(err)
		},
	}
	if note := noteOf(a.Store); note != nil {
		s.Note = func(ctx context.Context) (string, error) {
			text, err := note(ctx)
			return text, of.scrubbed(err)
		}
	}
	if home {
		s.Refusals = audit.Refusals
	}
	return s
}

// noteOf returns what reads what is unusual about a store as a whole, or nil.
func noteOf(s marks.Store) func(context.Context) (string, error) {
	if n, ok := s.(interface {
		Note(context.Context) (string, error)
	}); ok {
		return n.Note
	}
	return nil
}
