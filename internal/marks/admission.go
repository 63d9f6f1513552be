package marks

import (
	"cmp"
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Admission admits sessions to one store: it refuses, raises, revokes and registers, in that order,
// and each is durable before the next begins. It may be used from any goroutine.
type Admission struct {
	Store     Store
	Authority Authority
	Timeout   time.Duration // of one Admit; 10 s when zero
	Recheck   time.Duration // how long a refusal as stale is repeated without asking; 1 s when zero
	Notify    func(Event)   // may be nil; must not block

	seen     memory
	verdicts verdicts
	reasons  together[[]fence.Claim, map[fence.Resource]Mark]
	releases together[Departed, []Session]
	sessions sessions
}

// Admit registers a session under all its claims. Until it returns nil, nothing of the client but
// its login may reach the database. After an error nothing is admitted. The mark may be raised by
// then, which keeps older leaders out while this one tries again.
func (a *Admission) Admit(ctx context.Context, s Session, claims []Presented) error {
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

// Limit bounds one admission.
func (a *Admission) Limit() time.Duration { return cmp.Or(a.Timeout, 10*time.Second) }

func (a *Admission) recheck() time.Duration { return cmp.Or(a.Recheck, time.Second) }

// admit refuses what it has refused before, and remembers what it refuses for good.
func (a *Admission) admit(ctx context.Context, s Session, presented []Presented) error {
	if err := a.Precheck(ctx, presented); err != nil { // again: the login may have taken long
		return err
	}
	err := a.register(ctx, s, presented)
	a.verdicts.learn(err)
	return err
}

// register asks the authority first, so that no claim of a deposed leader reaches the store, even
// if the store has lost its mark. A raise asks the authority again.
func (a *Admission) register(ctx context.Context, s Session, presented []Presented) error {
	claims, err := a.verify(ctx, presented)
	if err != nil {
		return a.deposed(ctx, claims, err)
	}
	var quiet []*openSession
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
				var more []*openSession
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
	ctx context.Context, s Session, claims []fence.Claim,
) (r Registration, err error) {
	defer StepRegister.Begin(ctx)()
	err = a.withRoom(ctx, claims, func() (err error) {
		r, err = a.Store.Register(ctx, s, claims)
		return err
	})
	return r, err
}

func (a *Admission) verify(ctx context.Context, presented []Presented) ([]fence.Claim, error) {
	defer StepIssuer.Begin(ctx)()
	return a.Authority.Verify(ctx, presented)
}

// raise raises the mark, or confirms it, if the authority still agrees. Before that it asks from,
// unless that is nil, whether it may raise from the mark that the store has. It returns how many
// older sessions there are, or zero if the store cannot tell.
func (a *Admission) raise(
	ctx context.Context, s Session, c fence.Claim, from func(Mark) error,
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
			if seen.Token.Compare(m.Token) > 0 && seen.Issuer == c.Issuer && seen.Below(c) {
				return c, stale(c, seen)
			}
			m = seen
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
	ctx context.Context, s Session, c fence.Claim, older int,
) (quiet []*openSession, err error) {
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
func (a *Admission) revoke(ctx context.Context, s Session, c fence.Claim, ended int) error {
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
		if m := marks[c.Resource]; m.Issuer == c.Issuer && m.Below(c) {
			return stale(c, m)
		}
	}
	return nil
}
