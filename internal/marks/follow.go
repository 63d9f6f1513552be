package marks

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// Follower follows elections, and raises the mark as soon as leadership moves. So a deposed leader
// is cut off before the new one connects, and even if that one never does. Any number of guards may
// follow the same election: a raise that comes late changes nothing.
type Follower struct {
	Observer elector.Observer
	Log      *slog.Logger

	mu         sync.Mutex
	admissions []*Admission // of the stores that are open
	following  map[fence.Resource]*followed
	full       bool
	stopped    bool
	watches    sync.WaitGroup
	stop       context.CancelFunc
	ctx        context.Context
}

// followed is an election that is followed.
type followed struct {
	last elector.Candidate // who led last
	now  Election
	seen bool // the coordinator has said who leads

	raising, again bool // catchUp runs, and has to look once more
}

// Election is who leads a resource.
type Election struct {
	Token  fence.Token // 0: nobody leads
	Holder string
	Since  time.Time // when this guard saw it begin; zero if it began before
}

// Elections returns what the coordinator said last of the elections that are followed. A nil
// Follower follows none.
func (f *Follower) Elections() map[fence.Resource]Election {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[fence.Resource]Election, len(f.following))
	for r, of := range f.following {
		if of.seen {
			all[r] = of.now
		}
	}
	return all
}

// Add has the marks of a store raised, until Remove.
func (f *Follower) Add(a *Admission) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admissions = append(f.admissions, a)
}

// Remove leaves the marks of a store alone from now on. A raise that is under way may still come.
func (f *Follower) Remove(a *Admission) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admissions = slices.DeleteFunc(f.admissions, func(other *Admission) bool { return other == a })
}

func (f *Follower) stores() []*Admission {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.admissions)
}

// maxFollow is how many elections a guard follows. The marks of further resources rise when their
// new leaders connect.
const maxFollow = 1000

// Follow begins to follow the election of a resource, under a token of which a store of this guard
// has admitted a session. It returns at once, and may be called for every admission.
func (f *Follower) Follow(r fence.Resource, admitted fence.Token) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of, following := f.following[r]
	if f.stopped {
		return
	}
	if following {
		// The leader may have changed before the store had a mark to raise.
		if leader := of.last; leader.Token.Compare(admitted) > 0 {
			if of.again = true; !of.raising {
				of.raising = true
				f.watches.Go(func() { f.catchUp(r, of) })
			}
		}
		return
	}
	f.begin()
	if len(f.following) == maxFollow {
		if !f.full {
			f.Log.Warn("this guard follows no more elections", "resource", r, "followed", maxFollow)
		}
		f.full = true
		return
	}
	f.following[r] = &followed{}
	f.watches.Go(func() { f.watch(f.ctx, r) })
}

// begin makes what Close ends. The caller holds mu.
func (f *Follower) begin() {
	if f.ctx == nil {
		f.ctx, f.stop = context.WithCancel(context.Background())
		f.following = make(map[fence.Resource]*followed)
	}
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
		err := f.Observer.Watch(ctx, r, func(candidates []elector.Candidate) error {
			var leader elector.Candidate
			if len(candidates) > 0 {
				leader = candidates[0]
			}
			f.leads(r, leader)
			if leader.Token != 0 && leader.Token != last {
				last = leader.Token
				f.moved(ctx, r, leader)
			}
			return nil
		})
		if ctx.Err() == nil {
			f.Log.Warn("following an election", "resource", r, "err", err)
		}
		backoff.Pause(ctx, time.Second)
	}
}

// leads records who leads: nobody, if the token is 0.
func (f *Follower) leads(r fence.Resource, leader elector.Candidate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.following[r]
	if leader.Token != 0 {
		of.last = leader
	}
	if of.seen && of.now.Token == leader.Token {
		return
	}
	now := Election{Token: leader.Token, Holder: leader.Holder}
	if of.seen {
		now.Since = time.Now()
	}
	of.now, of.seen = now, true
}

// moved raises the mark of every store that has one, until that has succeeded or leadership has
// moved again.
func (f *Follower) moved(ctx context.Context, r fence.Resource, leader elector.Candidate) {
	for ctx.Err() == nil {
		issuer, leaders, err := f.Observer.Leaders(ctx, r)
		if err == nil && leaders[0].Token != leader.Token {
			return // there is another change to come
		}
		c := fence.Claim{Resource: r, Token: leader.Token, Issuer: issuer, Holder: leader.Holder}
		if err == nil {
			err = f.raise(ctx, c)
		}
		if err == nil {
			return
		}
		f.Log.Warn("raising the mark of a new leader", "resource", r, "token", c.Token.String(), "err",
			err)
		backoff.Pause(ctx, time.Second)
	}
}

// catchUp raises the marks that were not there when leadership moved. One of it runs for a
// resource, however many sessions are admitted meanwhile.
func (f *Follower) catchUp(r fence.Resource, of *followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for of.again && !f.stopped {
		of.again = false
		leader := of.last
		f.mu.Unlock()
		f.moved(f.ctx, r, leader)
		f.mu.Lock()
	}
	of.raising = false
}

// raise raises the marks of all stores, each on its own: one that does not answer keeps no other
// one waiting. It returns what may succeed another time.
func (f *Follower) raise(ctx context.Context, c fence.Claim) error {
	all := f.stores()
	failed := make([]error, len(all))
	var raising sync.WaitGroup
	for i, a := range all {
		raising.Go(func() {
			err := a.follow(ctx, c)
			if errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrOtherIssuer) {
				return // the mark is above the token already, or an operator has to decide
			}
			failed[i] = err
		})
	}
	raising.Wait()
	return errors.Join(failed...)
}

// errNotFollowed: the new leader's own session raises this mark, or somebody has raised it.
var errNotFollowed = errors.New("the mark is not raised before its leader connects")

// follow raises the mark to the claim of a new leader, if the store has one below it. If the mark
// is not confirmed, the store may have lost its list of sessions, and a raise would end everybody,
// also the new leader that is just connecting. Only that leader's own session can be spared
// (Store.Raise), so the mark is left to it. A direct session is not admitted before the mark is
// confirmed, so there is none to spare.
func (a *Admission) follow(ctx context.Context, c fence.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, a.Limit())
	defer cancel()
	m, ok := a.seen.get(c.Resource)
	if !a.Direct && (!ok || m.Issuer != c.Issuer || m.Token.Compare(c.Token) >= 0) {
		return nil
	}
	err := a.raiseAlone(ctx, SessionID{}, c, func(m Mark) error {
		if !m.Confirmed && !a.Direct || m.Confirmed && m.Token.Compare(c.Token) >= 0 {
			return errNotFollowed
		}
		return nil
	})
	if errors.Is(err, errNotFollowed) {
		return nil
	}
	return err
}
