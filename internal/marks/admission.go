package marks

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
	Direct    bool          // sessions connect to the store themselves, and are admitted by it

	seen     memory
	verdicts verdicts
	reasons  together[[]fence.Claim, map[fence.Resource]Mark]
	releases together[Departed, []SessionID]
	sessions openSessions
}

// Limit bounds one admission.
func (a *Admission) Limit() time.Duration { return cmp.Or(a.Timeout, 10*time.Second) }

func (a *Admission) recheck() time.Duration { return cmp.Or(a.Recheck, time.Second) }

func (a *Admission) verify(ctx context.Context, presented []Presented) ([]fence.Claim, error) {
	defer StepIssuer.Begin(ctx)()
	return a.Authority.Verify(ctx, presented)
}

// learn remembers a mark, and reports an adoption. Its client is not named: it adopted nothing.
func (a *Admission) learn(m Mark) {
	before, adopted := a.seen.learn(m)
	if adopted {
		c := fence.Claim{Resource: m.Resource, Token: m.Token, Issuer: m.Issuer, Holder: m.Holder}
		a.notify(context.Background(), Event{Kind: Adopted, Claim: c, Before: before})
	}
}

// Forget forgets what this process knows of the store's marks, because another store has taken its
// place. It decides nothing: whoever is admitted is admitted by the store.
func (a *Admission) Forget() { a.seen.forget() }

// Sessions lists the sessions that this process has admitted by resource and age. A session with
// several claims comes once for each.
func (a *Admission) Sessions() []OpenSession {
	all := a.sessions.list()
	for i, s := range all {
		// The mark's holder has the coordinator's name for it.
		if m, ok := a.seen.get(s.Claim.Resource); ok && m.Token == s.Claim.Token && m.Holder != "" {
			all[i].Claim.Holder = m.Holder
		}
	}
	slices.SortFunc(all, func(a, b OpenSession) int {
		return cmp.Or(cmp.Compare(a.Claim.Resource, b.Claim.Resource), a.Since.Compare(b.Since),
			cmp.Compare(a.Session.ID, b.Session.ID))
	})
	return all
}

// Report tells Notify of a claim of a holder that was refused before it came to Admit. Other errors
// are not reported.
func (a *Admission) Report(ctx context.Context, err error, holder string) {
	if r, ok := errors.AsType[*fence.Refusal](err); ok {
		c := r.Claim
		c.Holder = cmp.Or(holder, c.Holder) // the refusal may be one that another client got
		a.notify(ctx, Event{Kind: Refused, Claim: c, Err: err})
	}
}

// Finish reports a whole admission, whose first claim and error these are.
func (a *Admission) Finish(ctx context.Context, s *Steps, c fence.Claim, err error) {
	s.turn(StepOther)
	a.notify(ctx, Event{
		Kind: Finished, Claim: c, Took: time.Since(s.began), Steps: s.took, Err: err,
	})
}

// notify tells Notify of an event under ctx, which names its client.
func (a *Admission) notify(ctx context.Context, e Event) {
	e.Client = *clientOf(ctx)
	if a.Notify != nil {
		a.Notify(e)
	}
}
