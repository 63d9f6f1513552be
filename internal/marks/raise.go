package marks

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Raise raises the mark to a claim and ends older sessions, but registers none. A new leader calls
// it at a store that it reaches without a guard. The claim must have its issuer. After an error the
// mark may or may not be raised.
func (a *Admission) Raise(ctx context.Context, c fence.Claim) error {
	return a.RaiseFor(ctx, "", c)
}

// RaiseFor is Raise on behalf of a user's session that is not registered. The store refuses a user
// that may not claim the resource, if the user is not empty.
func (a *Admission) RaiseFor(ctx context.Context, user string, c fence.Claim) error {
	return a.raiseAlone(ctx, SessionID{User: user}, c, nil)
}

// raiseAlone raises the mark (raise has from) and ends older sessions. It registers none.
func (a *Admission) raiseAlone(
	ctx context.Context, s SessionID, c fence.Claim, from func(Mark) error,
) error {
	_, err := a.raise(ctx, s, c, from)
	if err == nil {
		// Those at rest in this process need not wait for the store, nor it for them.
		quiet := a.quiet(ctx, c)
		endIn(10*time.Millisecond, quiet)
		err = a.revoke(ctx, SessionID{}, c, len(quiet))
	}
	return a.explained(ctx, err)
}

// raise raises the mark, or confirms it, if the authority still agrees. Before that it asks from,
// unless that is nil, whether it may raise from the mark that the store has. It returns how many
// older sessions there are, or zero if the store cannot tell.
func (a *Admission) raise(
	ctx context.Context, s SessionID, c fence.Claim, from func(Mark) error,
) (older int, err error) {
	defer StepRaise.Begin(ctx)()
	start := time.Now()
	confirmed := c
	known, _ := a.seen.get(c.Resource)
	confirm := func(ctx context.Context, m Mark) (_ fence.Claim, err error) {
		if from != nil {
			if err := from(m); err != nil {
				return c, err
			}
		}
		// The store may have lost a mark that this process has seen. If it has not, it has to write down
		// itself that a leader is below it.
		if seen, ok := a.seen.over(c.Resource, m, known); ok {
			above := seen.Token.Compare(m.Token) > 0 && seen.Issuer == c.Issuer && seen.Below(c)
			switch {
			case !above:
				m = seen
			case a.counts(ctx, seen):
				return c, stale(c, seen)
			}
		}
		defer StepIssuer.Begin(ctx)()
		confirmed, err = a.Authority.Confirm(ctx, c, m)
		return confirmed, err
	}
	var before Mark
	err = a.withRoom(ctx, []fence.Claim{c}, func() (err error) {
		before, err = a.Store.Raise(ctx, s, c, confirm)
		return err
	})
	if err != nil {
		return 0, err
	}
	a.learn(Mark{ // before an older session asks why it was ended
		Resource: confirmed.Resource, Token: confirmed.Token,
		Issuer: confirmed.Issuer, Holder: confirmed.Holder,
		Raised: time.Now(), Confirmed: true, Continued: true, Adoption: before.Adoption,
		Candidate: confirmed.Candidate,
	})
	a.notify(ctx, Event{Kind: Raised, Claim: confirmed, Before: before, Took: time.Since(start)})
	return before.Sessions, nil
}

// endOlder ends the sessions that a raise has overtaken, of which there are about so many: those of
// this process that are at rest here, and the others at the store. It returns those that are quiet,
// and that the caller must end.
func (a *Admission) endOlder(
	ctx context.Context, s SessionID, c fence.Claim, older int,
) (quiet []*entry, err error) {
	defer StepRevoke.Begin(ctx)()
	start := time.Now()
	quiet = a.quiet(ctx, c)
	if len(quiet) < older {
		defer endIn(revokeGrace(quiet), quiet)() // they may keep others from ending
		return quiet, a.revoke(ctx, s, c, len(quiet))
	}
	a.notify(ctx, Event{
		Kind: Revoked, Claim: c, Session: s, Ended: len(quiet), Took: time.Since(start),
	})
	return quiet, nil
}

// revoke ends older sessions at the store. ended is how many have been ended without it.
func (a *Admission) revoke(ctx context.Context, s SessionID, c fence.Claim, ended int) error {
	defer StepRevoke.Begin(ctx)()
	start := time.Now()
	err := a.withRoom(ctx, []fence.Claim{c}, func() error {
		more, err := a.Store.Revoke(ctx, s, c)
		ended += more
		return err
	})
	if ended > 0 || err == nil {
		a.notify(ctx, Event{
			Kind: Revoked, Claim: c, Session: s, Ended: ended, Took: time.Since(start),
		})
	}
	return err
}
