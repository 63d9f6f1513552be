package marks

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Admit registers a session under all its claims. Until it returns nil, nothing of the client but
// its login may reach the database. After an error nothing is admitted. The mark may be raised by
// then, which keeps older leaders out while this one tries again.
func (a *Admission) Admit(ctx context.Context, s SessionID, claims []Presented) error {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, a.Limit())
	defer cancel()

	err := a.admit(ctx, s, claims)
	kind := Opened
	if err != nil {
		kind = Refused
	} else {
		a.sessions.add(s, claims, clientOf(ctx))
	}
	for _, c := range claims {
		a.notify(ctx, Event{
			Kind: kind, Claim: c.Under(""), Session: s, Took: time.Since(start), Err: err,
		})
	}
	return err
}

// admit refuses what it has refused before, and remembers what it refuses for good.
func (a *Admission) admit(ctx context.Context, s SessionID, presented []Presented) error {
	if err := a.Precheck(ctx, presented); err != nil { // again: the login may have taken long
		return err
	}
	err := a.register(ctx, s, presented)
	a.verdicts.learn(err)
	return err
}

// register asks the authority first, so that no claim of a deposed leader reaches the store, even
// if the store has lost its mark. A raise asks the authority again.
func (a *Admission) register(ctx context.Context, s SessionID, presented []Presented) error {
	claims, err := a.verify(ctx, presented)
	if err != nil {
		return a.deposed(ctx, claims, err)
	}
	var quiet []*entry
	defer func() { endIn(10*time.Millisecond, quiet) }() // after the newcomer has its answer
	for {
		r, err := a.tryRegister(ctx, s, claims)
		a.learn(r.Mark)
		if err != nil {
			return a.explained(ctx, err)
		}
		switch r.Next {
		case Admitted:
			return a.explained(ctx, a.checkMemory(ctx, claims))
		case MustRaise:
			var older int
			if older, err = a.raise(ctx, s, r.Claim, nil); err == nil && older > 0 {
				// The next registration would ask for it, but a busy store takes seconds to say so.
				var more []*entry
				more, err = a.endOlder(ctx, s, r.Claim, older)
				quiet = append(quiet, more...)
			}
		case MustRevoke:
			err = a.revoke(ctx, s, r.Claim, 0)
		}
		if err != nil {
			return a.explained(ctx, err)
		}
	}
}

func (a *Admission) tryRegister(
	ctx context.Context, s SessionID, claims []fence.Claim,
) (r Registration, err error) {
	defer StepRegister.Begin(ctx)()
	err = a.withRoom(ctx, claims, func() (err error) {
		r, err = a.Store.Register(ctx, s, claims)
		return err
	})
	return r, err
}

// checkMemory refuses claims that the store has admitted, if this process has seen a higher mark
// there: the store has lost that mark, and shows nothing of it. The caller ends the session.
func (a *Admission) checkMemory(ctx context.Context, claims []fence.Claim) error {
	for _, c := range claims {
		if m, ok := a.seen.get(c.Resource); !ok || !m.Below(c) {
			continue
		}
		marks, err := a.marks(ctx, []fence.Claim{c}) // an operator may have adopted the resource
		if err != nil {
			return err
		}
		if m := marks[c.Resource]; m.Issuer == c.Issuer && m.Below(c) && a.counts(ctx, m) {
			return stale(c, m)
		}
	}
	return nil
}
