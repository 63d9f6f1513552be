package marks

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// directEvery is how often a guard looks whether a store has other marks, or has lost them.
const directEvery = 2 * time.Second

// FollowDirect follows the elections of the named resources, and of all that a store has a mark of
// whose sessions do not come through this guard. It returns at once; Close ends it.
func (f *Follower) FollowDirect(named []fence.Resource) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	f.begin()
	f.watches.Go(func() {
		for f.ctx.Err() == nil {
			for _, r := range named {
				f.Follow(r, 0)
			}
			for _, a := range f.stores() {
				if err := f.followMarks(f.ctx, a); err != nil && f.ctx.Err() == nil {
					f.Log.Warn("reading the marks to follow", "err", err)
				}
			}
			backoff.Pause(f.ctx, directEvery)
		}
	})
}

// followMarks follows the resources of which the store has a mark of this coordinator. A mark that
// is not confirmed is raised again: the server was started again, and admits no session until then.
func (f *Follower) followMarks(ctx context.Context, a *Admission) error {
	if !a.Direct {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, a.Limit())
	defer cancel()
	issuer, err := f.Observer.Issuer(ctx)
	if err != nil {
		return err
	}
	all, err := a.Store.Marks(ctx)
	for _, m := range all {
		if m.Issuer != issuer {
			continue // others elect, or an operator has to adopt it
		}
		token := m.Token
		if !m.Confirmed {
			token = 0
		}
		f.Follow(m.Resource, token)
	}
	return err
}
