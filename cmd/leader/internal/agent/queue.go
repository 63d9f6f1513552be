package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/coordinators"
)

// tellWaiting tells a candidate who is before it: at each change, and at least every third of a
// session, so that it knows that the agent is there. over ends the look at the queue, and stop all
// of it; both may be called twice.
func (t *term) tellWaiting(ctx context.Context) (over, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	places := make(chan Event)
	var work sync.WaitGroup
	over = t.watchQueue(ctx, places)
	work.Go(func() { t.sendPlaces(ctx, places) })
	return over, func() { over(); cancel(); work.Wait() }
}

// sendPlaces sends each place, and the last one again. Without a place, the agent does not know it
// yet, or this candidate has won and its mark is being raised.
func (t *term) sendPlaces(ctx context.Context, places <-chan Event) {
	now := Event{Event: Waiting}
	beat := time.NewTimer(t.pause())
	defer beat.Stop()
	for {
		select {
		case now = <-places:
			if now.Place == 0 {
				continue
			}
		case <-beat.C:
		case <-ctx.Done():
			return
		}
		t.send(now)
		beat.Reset(t.pause())
	}
}

// watchQueue passes on who is before this candidate, until it is stopped. Then nobody is.
func (t *term) watchQueue(ctx context.Context, places chan<- Event) (stop func()) {
	pass := func(e Event) {
		select {
		case places <- e:
		case <-ctx.Done():
		}
	}
	end := coordinators.WhileWaiting(ctx, func(ctx context.Context) {
		var told Event
		// The campaign has the coordinator's errors.
		_ = t.agent.Coordinator.Watch(ctx, t.resource, func(all []elector.Candidate) error {
			if len(all) == 0 {
				return ctx.Err()
			}
			// The first one does not wait, and may have the same name.
			at := 1 + slices.IndexFunc(all[1:], func(c elector.Candidate) bool {
				return c.Holder == t.holder
			})
			if now := (Event{
				Event: Waiting, Place: at, Leader: all[0].Holder,
			}); at > 0 && now != told && ctx.Err() == nil {
				told = now
				pass(now)
			}
			return ctx.Err()
		})
	})
	return sync.OnceFunc(func() { end(); pass(Event{Event: Waiting}) })
}

// won is an elector that says when a campaign is over. Its error is permanent
// (coordinators.ErrCampaign).
type won struct {
	fence.Elector
	over func()
}

// Campaign implements fence.Elector.
func (e won) Campaign(ctx context.Context, r fence.Resource, holder string) (*fence.Term, error) {
	defer e.over()
	term, err := e.Elector.Campaign(ctx, r, holder)
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", coordinators.ErrCampaign, err)
	}
	return term, err
}
