package coordinators

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Announcer logs the start of a campaign and its victory. It wraps a campaign's error in
// ErrCampaign, which is permanent, since the elector itself retries everything else.
type Announcer struct {
	fence.Elector
	Log *slog.Logger
}

// Campaign implements fence.Elector.
func (a *Announcer) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	a.Log.Info("standing for election")
	t, err := a.Elector.Campaign(ctx, r, holder)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCampaign, err)
	}
	a.Log.Info("elected; raising the mark", "token", t.Token().String())
	return t, nil
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
