package marks

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/fence"
)

// Issuing is a Store whose database also holds elections.
type Issuing interface {
	// Issuer returns who gives out the tokens of the elections in the store's own database.
	Issuer(ctx context.Context) (fence.Issuer, error)
}

// counts reports whether a claim below a mark is refused, which the store may have lost. If so, it
// has the store raise a lost mark again and end older sessions, because all processes must refuse
// the same claims, also those that have not seen it. If that fails, the mark counts all the same.
//
// A lost mark does not count if the tokens come from elections in the store's own database, and the
// coordinator is asked about each. Mark and election were lost together then, as when a primary
// comes back on its older timeline. No number that was lost is given out again
// (ringfence.next_token), so only the leader has the leader's number.
func (a *Admission) counts(ctx context.Context, m Mark) bool {
	switch {
	case !m.Lost:
	case a.electsItself(ctx, m.Issuer):
		a.seen.drop(m)
		return false
	default:
		a.restore(ctx, m)
	}
	return true
}

// restore has the store raise a lost mark again, and end older sessions.
func (a *Admission) restore(ctx context.Context, lost Mark) {
	c := fence.Claim{
		Resource: lost.Resource, Token: lost.Token, Issuer: lost.Issuer, Holder: lost.Holder,
		Candidate: lost.Candidate,
	}
	before, err := a.Store.Raise(ctx, SessionID{}, c,
		func(_ context.Context, now Mark) (fence.Claim, error) {
			if lost.Token.Compare(now.Token) <= 0 || !lost.comparable(now) {
				return c, errNotLost
			}
			return c, nil
		})
	if err == nil {
		a.notify(ctx, Event{Kind: Restored, Claim: c, Before: before})
		_ = a.revoke(ctx, SessionID{}, c, 0) // if it fails, the next admission does it
	}
}

// errNotLost: somebody has raised the mark since, or adopted the resource.
var errNotLost = errors.New("the store has not lost the mark")

// electsItself reports whether an issuer is that of the store's own database, and this process asks
// the coordinator.
func (a *Admission) electsItself(ctx context.Context, is fence.Issuer) bool {
	s, ok := a.Store.(Issuing)
	if !ok || !a.Authority.Verifies() {
		return false
	}
	own, err := s.Issuer(ctx)
	return err == nil && own == is
}
