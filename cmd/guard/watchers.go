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
	if c.Coordinator.Reveal() == "" {
		return nil
	}
	return &marks.Follower{Observer: o, Log: log}
}

// watch has the watchers, and the audit, hear of the events of a store.
func (c *config) watch(w watchers, name string, a *marks.Admission, audit *guard.Audit) {
	hear := []func(marks.Event){audit.Event}
	if w.status != nil {
		hear = append(hear, w.status.Watch(page.Store{
			Name: name, Sessions: a.Sessions, Refusals: audit.Refusals,
			Marks: func(ctx context.Context) ([]marks.Mark, error) {
				all, err := a.Store.Marks(ctx)
				if err != nil {
					err = errors.New(c.scrub(err.Error()))
				}
				return all, err
			},
		}))
	}
	if w.elections != nil {
		w.elections.Add(a)
		hear = append(hear, func(e marks.Event) {
			if e.Kind == marks.Opened {
				w.elections.Follow(e.Claim.Resource)
			}
		})
	}
	a.Notify = func(e marks.Event) {
		for _, h := range hear {
			h(e)
		}
	}
}
