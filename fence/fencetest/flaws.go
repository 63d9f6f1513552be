package fencetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// flaw is one way to be wrong. Where a function is nil, the coordinator is right.
type flaw struct {
	name   string
	clause string             // the clause that finds it soonest on a real server
	says   string             // words of that clause's failure
	also   []string           // more clauses that find it
	shows  func(Fixture) bool // false where the fixture cannot show it
	change func(*Fixture)
	opened func(*flawed)

	campaign   func(*flawed, context.Context, fence.Resource, string) (*fence.Term, error)
	depose     func(*flawed, context.Context, fence.Resource, fence.Token) (bool, error)
	candidates func(*flawed, []elector.Candidate, error) ([]elector.Candidate, error)
	leaders    func(*flawed, *answer)
	watch      func(*flawed, func([]elector.Candidate) error) func([]elector.Candidate) error
	watched    func(error) error // what Watch returns
	renew      func(*flawed, context.Context) (fence.Issuer, error)

	claim       func(*fence.Claim)
	follow      func(*shadow, fence.State) // what becomes of the term in this state of the right one
	acknowledge func(*shadow, context.Context) error
	release     func(*shadow, context.Context) error
}

// flaws is the table of flaws. Some cannot be made from outside, on a real server: two candidates
// that the server itself elects, a counter that goes back, a reply from memory that was right
// until a moment ago. The tests of the coordinators have these, with faults of the server. That an
// issuer comes back is a lie of the clients here. A goroutine that Close leaves is not in the
// table, because the clause about it has subtests, which a witness cannot have.
var flaws = slices.Concat(
	flawsOfCampaigns, flawsOfTerms, flawsOfReleases, flawsOfObservers, flawsOfLeaders, flawsOfIssuers,
	flawsOfIdentities,
)

// alive returns a right client that is not closed.
func (f *flawed) alive() elector.Coordinator {
	f.world.mu.Lock()
	defer f.world.mu.Unlock()
	for _, c := range f.world.clients {
		if !c.isClosed() {
			return c.Coordinator
		}
	}
	return f.Coordinator
}

// tooEarly makes a campaign that returns a term when it may, although nobody has won it. ahead is
// what may has noted.
func tooEarly(
	may func(queue []elector.Candidate, own int, ahead *fence.Token) bool,
) func(*flawed, context.Context, fence.Resource, string) (*fence.Term, error) {
	return func(
		f *flawed, ctx context.Context, r fence.Resource, holder string,
	) (*fence.Term, error) {
		won := f.inBackground(r, holder)
		var right *fence.Term
		var own elector.Candidate
		var ahead fence.Token
		f.poll(ctx, func() bool {
			select {
			case right = <-won:
				return true
			default:
			}
			queue := f.queueOf(ctx, r)
			i := slices.IndexFunc(queue, func(c elector.Candidate) bool { return c.Holder == holder })
			if i < 0 {
				return false
			}
			own = queue[i]
			return may(queue, i, &ahead)
		})
		switch {
		case right != nil:
			return right, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case f.isClosed():
			return nil, ErrClosed
		}
		return f.madeUp(ctx, r, own), nil
	}
}

// poll returns when it holds, or ctx ends, or the client is closed.
func (f *flawed) poll(ctx context.Context, holds func() bool) {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		case <-f.ctx.Done():
			return
		}
	}
}

// renamed makes a campaign under another name.
func renamed(
	name func(string) string,
) func(*flawed, context.Context, fence.Resource, string) (*fence.Term, error) {
	return func(
		f *flawed, ctx context.Context, r fence.Resource, holder string,
	) (*fence.Term, error) {
		return f.rightCampaign(ctx, r, name(holder))
	}
}

// deafTo makes a term that does not end for this reason.
func deafTo(why error) func(*shadow, fence.State) {
	return func(s *shadow, state fence.State) {
		if state == fence.Lost && errors.Is(context.Cause(s.right.Context()), why) {
			s.keeper.Confirm(time.Now())
			return
		}
		s.obey(state)
	}
}

// eachLeader makes a flaw that changes the leader of each resource.
func eachLeader(
	change func(f *flawed, r fence.Resource, leader *elector.Candidate),
) func(*flawed, *answer) {
	return func(f *flawed, now *answer) {
		for i := range now.leaders {
			change(f, now.asked[i], &now.leaders[i])
		}
	}
}

// resignAll resigns every term of the client.
func (f *flawed) resignAll(ctx context.Context) {
	f.mu.Lock()
	all := slices.Clone(f.terms)
	f.mu.Unlock()
	for _, s := range all {
		s.keeper.Lose(fence.ErrResigned)
		_ = s.right.Resign(ctx)
	}
}
