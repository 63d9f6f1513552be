package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/program/coordinators"
)

// watchQueue tells a candidate who is before it, until it is stopped.
func (t *term) watchQueue(ctx context.Context) (stop func()) {
	return coordinators.WhileWaiting(ctx, func(ctx context.Context) {
		var told Event
		// The campaign has the coordinator's errors.
		_ = t.agent.Coordinator.Watch(ctx, t.resource, func(all []fence.Candidate) error {
			if len(all) == 0 {
				return ctx.Err()
			}
			// The first one does not wait, and may have the same name.
			at := 1 + slices.IndexFunc(all[1:], func(c fence.Candidate) bool { return c.Holder == t.holder })
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
}

// won is an elector that says when a campaign is over. Its error is permanent (coordinators.ErrCampaign).
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
