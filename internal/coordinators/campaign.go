package coordinators

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// Announcer logs the start of a campaign and its victory. It wraps a campaign's error in
// ErrCampaign, which is permanent, since the elector itself retries everything else.
type Announcer struct {
	elector.Coordinator
	Log *slog.Logger
}

// patience is how long a candidate stands until the log says who leads.
const patience = time.Second

// Campaign implements fence.Elector.
func (a *Announcer) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	a.Log.Info("standing for election")
	stop := a.sayWhoLeads(ctx, r)
	t, err := a.Coordinator.Campaign(ctx, r, holder)
	stop()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCampaign, err)
	}
	a.Log.Info("elected; raising the mark", "token", t.Token().String())
	return t, nil
}

// sayWhoLeads logs for whom a candidate waits, unless it wins soon.
func (a *Announcer) sayWhoLeads(ctx context.Context, r fence.Resource) (stop func()) {
	return WhileWaiting(ctx, func(ctx context.Context) {
		queue, err := a.Candidates(ctx, r)
		if err != nil || len(queue) == 0 || ctx.Err() != nil {
			return // Campaign has an error of the coordinator
		}
		a.Log.Info("standing by; another one leads",
			"leader", queue[0].Holder, "leader_token", queue[0].Token.String(), "candidates", len(queue))
	})
}

// WhileWaiting calls look once a candidate has stood for a second. stop ends that, and returns when
// look has returned; it may be called twice.
func WhileWaiting(ctx context.Context, look func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		select {
		case <-ctx.Done():
		case <-time.After(patience):
			look(ctx)
		}
	})
	return func() { cancel(); work.Wait() }
}

// ErrCampaign marks the errors of an Announcer: retrying cannot fix them.
var ErrCampaign = errors.New("the coordinator refused")

// Patience bounds how long a command that does not campaign waits for the coordinator.
func Patience(
	ctx context.Context, timeout time.Duration,
) (context.Context, context.CancelFunc) {
	why := fmt.Errorf("no answer of the coordinator within LEADER_SESSION_TIMEOUT=%s", timeout)
	return context.WithTimeoutCause(ctx, timeout, why)
}
