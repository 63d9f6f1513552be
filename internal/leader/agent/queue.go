package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// patience is how long a candidate stands until it is told for whom it waits.
const patience = time.Second

// queue tells a candidate who is before it.
type queue struct {
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// watchQueue watches the queue of the election, until it is stopped.
func (t *term) watchQueue(ctx context.Context) *queue {
	ctx, cancel := context.WithCancel(ctx)
	q := &queue{cancel: cancel}
	q.work.Go(func() {
		select {
		case <-time.After(patience):
		case <-ctx.Done():
			return
		}
		var told Event
		// The campaign has the coordinator's errors.
		_ = t.agent.Coordinator.Watch(ctx, t.resource, func(all []fence.Candidate) error {
			at := slices.IndexFunc(all, func(c fence.Candidate) bool { return c.Holder == t.holder })
			if now := (Event{Event: Waiting, Place: at}); at > 0 && ctx.Err() == nil {
				now.Leader = all[0].Holder
				if now != told {
					told = now
					t.send(now)
				}
			}
			return ctx.Err()
		})
	})
	return q
}

// stop returns when nothing more is told.
func (q *queue) stop() {
	q.cancel()
	q.work.Wait()
}

// won is an elector that says when a campaign is over.
type won struct {
	fence.Elector
	over func()
}

// Campaign implements fence.Elector.
func (e won) Campaign(ctx context.Context, r fence.Resource, holder string) (*fence.Term, error) {
	defer e.over()
	return e.Elector.Campaign(ctx, r, holder)
}
