package marks

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/backoff"
)

// Follower follows elections, and raises the mark as soon as leadership moves. So a deposed leader is
// cut off before the new one connects, and even if that one never does. Any number of guards may
// follow the same election: a raise that comes late changes nothing.
type Follower struct {
	Observer fence.Observer
	Log      *slog.Logger

	admissions []*Admission // of all stores of this guard

	mu        sync.Mutex
	following map[fence.Resource]bool
	full      bool
	stopped   bool
	watches   sync.WaitGroup
	stop      context.CancelFunc
	ctx       context.Context
}

// Add has marks of a store raised, too. Call it before the first Follow.
func (f *Follower) Add(a *Admission) { f.admissions = append(f.admissions, a) }

// followMost is how many elections a guard follows. The marks of further resources rise when their
// new leaders connect.
const followMost = 1000

// Follow begins to follow the election of a resource that a store of this guard has a mark of. It
// returns at once, and may be called for every admission.
func (f *Follower) Follow(r fence.Resource) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || f.following[r] {
		return
	}
	if f.ctx == nil {
		f.ctx, f.stop = context.WithCancel(context.Background())
		f.following = make(map[fence.Resource]bool)
	}
	if len(f.following) == followMost {
		if !f.full {
			f.Log.Warn("this guard follows no more elections", "resource", r, "followed", followMost)
		}
		f.full = true
		return
	}
	f.following[r] = true
	f.watches.Go(func() { f.watch(f.ctx, r) })
}

// Close stops following, and waits. A nil Follower follows nothing.
func (f *Follower) Close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.stopped = true
	if f.stop != nil {
		f.stop()
	}
	f.mu.Unlock()
	f.watches.Wait()
}

// watch follows one election until ctx ends.
func (f *Follower) watch(ctx context.Context, r fence.Resource) {
	for ctx.Err() == nil {
		var last fence.Token
		err := f.Observer.Watch(ctx, r, func(candidates []fence.Candidate) error {
			if len(candidates) > 0 && candidates[0].Token != last {
				last = candidates[0].Token
				f.moved(ctx, r, candidates[0])
			}
			return nil
		})
		if ctx.Err() == nil {
			f.Log.Warn("following an election", "resource", r, "err", err)
		}
		backoff.Pause(ctx, time.Second)
	}
}

// moved raises the mark of every store that has one, until that has succeeded or leadership has moved
// again.
func (f *Follower) moved(ctx context.Context, r fence.Resource, leader fence.Candidate) {
	for ctx.Err() == nil {
		issuer, leaders, err := f.Observer.Leaders(ctx, r)
		if err == nil && leaders[0].Token != leader.Token {
			return // there is another change to come
		}
		c := fence.Claim{Resource: r, Token: leader.Token, Issuer: issuer, Holder: leader.Holder}
		for _, a := range f.admissions {
			if err == nil {
				err = a.follow(ctx, c)
			}
		}
		if err == nil || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrOtherIssuer) {
			return // the mark is above the token already, or an operator has to decide
		}
		f.Log.Warn("raising the mark of a new leader", "resource", r, "token", c.Token.String(), "err", err)
		backoff.Pause(ctx, time.Second)
	}
}

// follow raises the mark to the claim of a new leader, if the store has one below it.
func (a *Admission) follow(ctx context.Context, c fence.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, a.Limit())
	defer cancel()
	m, ok := a.seen.get(c.Resource)
	if !ok || m.Issuer != c.Issuer || m.Token.Compare(c.Token) >= 0 {
		return nil
	}
	return a.Raise(ctx, c)
}
