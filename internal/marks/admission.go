package marks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/backoff"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Event is one thing that happened to a resource, for logs and metrics.
type Event struct {
	Kind    EventKind
	Claim   fence.Claim
	Session Session
	Client  Client                 // who opens the session; empty if another process has caused the event
	Before  Mark                   // Raised: the mark before. Adopted: the one that this process knew
	Ended   int                    // Revoked: how many sessions were ended
	Took    time.Duration          // how long this took; Opened, Refused: the whole Admit
	Steps   map[Step]time.Duration // Finished: how long each step took
	Err     error                  // Refused, Finished: why the session was not admitted
}

// EventKind says what happened.
type EventKind string

const (
	Opened  EventKind = "admitted"
	Raised  EventKind = "raised"
	Revoked EventKind = "revoked"
	Refused EventKind = "refused"
	Closed  EventKind = "closed" // the connection of an admitted session is closed

	// Adopted comes when this process finds that an operator has adopted the resource.
	Adopted EventKind = "adopted"

	// Finished comes at the end of everything that a guard does to admit a session.
	Finished EventKind = "finished"
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
		a.admitted(ctx, s, claims)
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

// Report tells Notify of a claim of a holder that was refused before it came to Admit. Other errors
// are not reported.
func (a *Admission) Report(ctx context.Context, err error, holder string) {
	var r *fence.Refusal
	if errors.As(err, &r) {
		c := r.Claim
		c.Holder = cmp.Or(holder, c.Holder) // the refusal may be one that another client got
		a.notify(ctx, Event{Kind: Refused, Claim: c, Err: err})
	}
}

// releaseTime bounds Release.
const releaseTime = 5 * time.Second

// Release has the store forget a session whose connection is closed, whatever became of ctx. A
// record that stays is found by the next revocation. A session that was let go is ended in the
// database, if the end of its connection has not arrived there.
//
// Sessions that end at the same time are released together, so they never keep more than one of
// the store's connections busy. If every mark is known to have been raised above the session's
// claims, and it was not let go, Release does nothing: the revocation for the higher mark looks for
// the session itself, and nobody is admitted before it has removed the record.
func (a *Admission) Release(ctx context.Context, s Session, claims []Presented) {
	d := departed(s, claims)
	there, letGo := a.sessions.remove(d)
	if there {
		for _, c := range claims {
			a.notify(ctx, Event{Kind: Closed, Claim: c.Under(""), Session: s})
		}
	}
	revoked := true
	for _, c := range claims {
		revoked = revoked && a.overtaken(c) != nil
	}
	if revoked && !letGo {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	for n := 1; ; n++ {
		leaving, err := a.releases.do(ctx, d, a.releaseAll)
		if err != nil || !slices.Contains(leaving, s) {
			return
		}
		backoff.Pause(ctx, backoff.After(n, backoff.Least, time.Second))
		d.Overdue = true
	}
}

// LetGo lets a session go that has run the statement of a Proof, if the store agrees that it is at
// rest, and reports whether it does. The caller then closes the session's connection, and calls
// Release. It may be repeated, because the session may need a moment.
func (a *Admission) LetGo(ctx context.Context, s Session, claims []Presented, statement string) bool {
	d := departed(s, claims)
	d.Proof = statement
	leaving, err := a.releases.do(ctx, d, a.releaseAll)
	return err == nil && slices.Contains(leaving, s)
}

func (a *Admission) releaseAll(ctx context.Context, all []Departed) ([]Session, error) {
	return a.Store.Release(ctx, all...)
}

// Raise raises the mark to a claim and ends older sessions, but registers none. A new leader calls
// it at a store that it reaches without a guard. The claim must have its issuer. After an error the
// mark may or may not be raised.
func (a *Admission) Raise(ctx context.Context, c fence.Claim) error {
	return a.RaiseFor(ctx, "", c)
}

// RaiseFor is Raise on behalf of a user's session that is not registered. The store refuses a user
// that may not claim the resource, if the user is not empty.
func (a *Admission) RaiseFor(ctx context.Context, user string, c fence.Claim) error {
	return a.raiseAlone(ctx, Session{User: user}, c, anyMark)
}

// raiseAlone raises the mark, unless from refuses the one that the store has, and ends older sessions.
// It registers none.
func (a *Admission) raiseAlone(ctx context.Context, s Session, c fence.Claim, from func(Mark) error) error {
	_, err := a.raiseFrom(ctx, s, c, from)
	if err == nil {
		// Those at rest in this process need not wait for the store, nor it for them.
		quiet := a.quiet(ctx, c)
		endIn(10*time.Millisecond, quiet)
		err = a.revoke(ctx, Session{}, c, len(quiet))
	}
	return a.explained(ctx, err)
}

// anyMark lets a raise begin at whatever mark the store has.
func anyMark(Mark) error { return nil }

// reasonTime bounds Ended.
const reasonTime = 5 * time.Second

// Ended says why a session under these claims was ended: an ErrStale refusal if a mark is above one
// of them. It returns nil for any other reason, such as an administrator, and if the store does not
// answer within five seconds or before ctx ends. A crowd that asks at once costs the store one
// query at a time.
func (a *Admission) Ended(ctx context.Context, claims []Presented) error {
	ctx, cancel := context.WithTimeout(ctx, reasonTime)
	defer cancel()
	for _, c := range claims {
		if err := a.overtaken(c); err != nil {
			return err
		}
	}
	marks, _ := a.reasons.do(ctx, Under("", claims), a.marksOfAll)
	for _, c := range claims {
		if m, ok := marks[c.Resource]; ok && m.Token.Compare(c.Token) > 0 {
			return refusal.Stale(c.Under(""), m.Token, m.Holder, m.Raised)
		}
	}
	return nil
}

// overtaken refuses a claim if this process has seen a mark above it.
func (a *Admission) overtaken(c Presented) error {
	m, ok := a.seen.get(c.Resource)
	if !ok || m.Token.Compare(c.Token) <= 0 {
		return nil
	}
	return refusal.Stale(c.Under(""), m.Token, m.Holder, m.Raised)
}

// marksOfAll reads the marks of several sessions' claims at once.
func (a *Admission) marksOfAll(
	ctx context.Context, sessions [][]fence.Claim,
) (map[fence.Resource]Mark, error) {
	return a.marks(ctx, slices.Concat(sessions...))
}

// admit refuses what it has refused before, and remembers what it refuses for good.
func (a *Admission) admit(ctx context.Context, s Session, presented []Presented) error {
	if err := a.Precheck(ctx, presented); err != nil {
		return err
	}
	err := a.register(ctx, s, presented)
	a.verdicts.learn(err)
	return err
}

// register asks the authority first, so that no claim of a deposed leader reaches the store, even if
// the store has lost its mark. A raise asks the authority again.
func (a *Admission) register(ctx context.Context, s Session, presented []Presented) error {
	claims, err := a.verify(ctx, presented)
	if err != nil {
		return a.deposed(ctx, claims, err)
	}
	var quiet []*openSession
	defer func() { endIn(10*time.Millisecond, quiet) }() // after the newcomer has its answer
	for {
		stop := StepRegister.Begin(ctx)
		r, err := a.Store.Register(ctx, s, claims)
		stop()
		a.learn(r.Mark)
		if err != nil {
			return a.explained(ctx, err)
		}
		switch r.Next {
		case Admitted:
			return a.explained(ctx, a.checkMemory(ctx, claims))
		case MustRaise:
			var older int
			if older, err = a.raise(ctx, s, r.Claim); err == nil && older > 0 {
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

// checkMemory refuses claims that the store has admitted, if this process has seen a higher mark there:
// the store has lost that mark, and shows nothing of it. The caller ends the session.
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

func (a *Admission) verify(ctx context.Context, presented []Presented) ([]fence.Claim, error) {
	defer StepIssuer.Begin(ctx)()
	return a.Authority.Verify(ctx, presented)
}

// explained returns the error of a step with its reason, for which it may ask authority and store.
func (a *Admission) explained(ctx context.Context, err error) error {
	err = a.asked(err)
	var r *fence.Refusal
	switch {
	case !errors.As(err, &r):
		return err
	case r.Reason == fence.ErrStale:
		return a.rolledBack(ctx, r)
	case r.Reason == fence.ErrNotLeader && r.Claim.Resource != "":
		return a.deposed(ctx, []fence.Claim{r.Claim}, r)
	}
	return err
}

// deposed says why claims are refused that the authority does not confirm. A mark above a token
// refuses it for good, whereas the authority only knows who leads now.
func (a *Admission) deposed(ctx context.Context, claims []fence.Claim, refused error) error {
	marks, _ := a.marks(ctx, claims)
	for _, c := range claims {
		m := marks[c.Resource]
		switch {
		case c.Issuer == "" || m.Issuer == "": // the issuer is not known, or there is no mark
		case m.Issuer != c.Issuer:
			return refusal.OtherIssuer(c, m.Token, m.Issuer)
		case m.RolledBack:
			return refusal.RolledBack(c, m.Token)
		case m.Token.Compare(c.Token) > 0:
			return stale(c, m)
		default:
			refused = met(refused, m)
		}
	}
	return refused
}

// marks reads the marks of claims from the store. Where the store has lost a mark or does not
// answer, it takes the mark from the memory of this process.
func (a *Admission) marks(ctx context.Context, claims []fence.Claim) (map[fence.Resource]Mark, error) {
	var only []fence.Resource
	marks := make(map[fence.Resource]Mark)
	for _, c := range claims {
		only = append(only, c.Resource)
	}
	slices.Sort(only)
	only = slices.Compact(only)
	read, err := a.Store.Marks(ctx, only...)
	for _, m := range read {
		a.learn(m)
		marks[m.Resource] = m
	}
	for _, r := range only {
		if m, ok := a.seen.over(r, marks[r]); ok {
			m.Lost = m.Lost && err == nil
			marks[r] = m
		}
	}
	return marks, err
}

// rolledBack checks whether a token that the store refuses as stale still leads. If so, the
// coordinator was rolled back, as by a restore from a backup, and its leader must not be told that
// it is deposed. A raise writes that down in the store: otherwise each further try would count up, and
// be above the mark sooner or later.
func (a *Admission) rolledBack(ctx context.Context, refused *fence.Refusal) error {
	if !a.Authority.Verifies() {
		return refused
	}
	if _, deposed := a.verify(ctx, Present(refused.Claim)); deposed != nil {
		return refused
	}
	if _, err := a.raise(ctx, Session{}, refused.Claim); err != nil && !errors.Is(err, fence.ErrStale) {
		return err
	}
	return refusal.RolledBack(refused.Claim, refused.Mark)
}

// raise raises the mark, or confirms it, if the authority still agrees. It returns how many older
// sessions there are, or zero if the store cannot tell.
func (a *Admission) raise(ctx context.Context, s Session, c fence.Claim) (older int, err error) {
	return a.raiseFrom(ctx, s, c, anyMark)
}

// raiseFrom is raise, unless from returns an error for the mark that the store has.
func (a *Admission) raiseFrom(
	ctx context.Context, s Session, c fence.Claim, from func(Mark) error,
) (older int, err error) {
	defer StepRaise.Begin(ctx)()
	start := time.Now()
	confirmed := c
	confirm := func(ctx context.Context, m Mark) (_ fence.Claim, err error) {
		if err := from(m); err != nil {
			return c, err
		}
		// The store may have lost a mark that this process has seen. If it has not, it has to write down
		// itself that a leader is below it.
		if seen, ok := a.seen.over(c.Resource, m); ok {
			if seen.Lost && seen.Issuer == c.Issuer && seen.Below(c) {
				return c, stale(c, seen)
			}
			m = seen
		}
		defer StepIssuer.Begin(ctx)()
		confirmed, err = a.Authority.Confirm(ctx, c, m)
		return confirmed, err
	}
	before, err := a.Store.Raise(ctx, s, c, confirm)
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
		defer endIn(aside(quiet), quiet)() // they may keep others from ending
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
	more, err := a.Store.Revoke(ctx, s, c)
	ended += more
	if ended > 0 || err == nil {
		a.notify(ctx, Event{
			Kind: Revoked, Claim: c, Session: s, Ended: ended, Took: time.Since(start),
		})
	}
	return err
}

// asked makes sure that every error says what was admitted and what to do.
func (a *Admission) asked(err error) error {
	var r *fence.Refusal
	if err == nil || errors.As(err, &r) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return refusal.TimedOut(err)
	}
	return fmt.Errorf("the store could not be asked, nothing was admitted: %w", err)
}

// Forget forgets what this process knows of the store's marks, because another store has taken its
// place. It decides nothing: whoever is admitted is admitted by the store.
func (a *Admission) Forget() { a.seen.forget() }

// learn remembers a mark, and reports an adoption. Its client is not named: it adopted nothing.
func (a *Admission) learn(m Mark) {
	before, adopted := a.seen.learn(m)
	if adopted {
		c := fence.Claim{Resource: m.Resource, Token: m.Token, Issuer: m.Issuer, Holder: m.Holder}
		a.notify(context.Background(), Event{Kind: Adopted, Claim: c, Before: before})
	}
}

func (a *Admission) notify(ctx context.Context, e Event) {
	e.Client = *clientOf(ctx)
	if a.Notify != nil {
		a.Notify(e)
	}
}

// met adds the mark to the refusal of a claim.
func met(err error, m Mark) error {
	var r *fence.Refusal
	if errors.As(err, &r) && r.Claim.Resource == m.Resource && r.Mark == 0 {
		r.Mark = m.Token
	}
	return err
}
