package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Event is one thing that happened to a resource, for logs and metrics.
type Event struct {
	Kind    EventKind
	Claim   fence.Claim
	Session Session
	Before  Mark          // Raised: the mark as it was
	Ended   int           // Revoked: sessions that were ended
	Took    time.Duration // of this step; of the whole admission for Opened and Refused
	Err     error         // Refused: why
}

// EventKind is what happened.
type EventKind string

const (
	Opened  EventKind = "admitted"
	Raised  EventKind = "raised"
	Revoked EventKind = "revoked"
	Refused EventKind = "refused"
)

// Admission opens sessions at one store: refuse, raise, revoke, admit, in that order, each durable before the next.
// The zero Timeout is 10 s. It may be used from any goroutine.
type Admission struct {
	Store     Store
	Authority Authority
	Timeout   time.Duration // for one Admit as a whole
	Notify    func(Event)   // may be nil; must not block

	seen memory
}

// Admit opens a session under all its claims, whose issuer it fills in itself. Only after it has returned nil may
// anything of the client but its login reach the database. Any error admits nothing, and a mark may be raised all the
// same: that is what keeps an older leader out while this one tries again.
func (a *Admission) Admit(ctx context.Context, s Session, claims []fence.Claim) error {
	start := time.Now()
	timeout := a.Timeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	err := a.admit(ctx, s, claims)
	if errors.Is(err, fence.ErrStale) {
		err = a.setBack(ctx, err)
	}
	kind := Opened
	if err != nil {
		kind = Refused
	}
	for _, c := range claims {
		a.notify(Event{Kind: kind, Claim: c, Session: s, Took: time.Since(start), Err: err})
	}
	return err
}

// Raise raises the mark to a claim and ends older sessions, without opening one: what a new leader does at a store that
// it reaches round the guard. The claim carries its issuer. After an error the mark may or may not be raised.
func (a *Admission) Raise(ctx context.Context, c fence.Claim) error {
	before := Mark{Resource: c.Resource, Confirmed: true}
	marks, err := a.Store.Marks(ctx, c.Resource)
	if err != nil {
		return a.asked(err)
	}
	for _, m := range marks {
		before = m
	}
	if err := a.raise(ctx, c, before); err != nil {
		return a.asked(err)
	}
	return a.asked(a.revoke(ctx, Session{}, c))
}

const reasonTime = 5 * time.Second

// Ended tells why sessions under these claims were ended: the ErrStale refusal when a mark has passed one of them, and
// nil when it was something else, such as an administrator, or when the store cannot say within five seconds or before
// ctx ends.
func (a *Admission) Ended(ctx context.Context, claims []fence.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, reasonTime)
	defer cancel()
	var only []fence.Resource
	for _, c := range claims {
		if m, ok := a.seen.get(c.Resource); ok && m.Token.Compare(c.Token) > 0 {
			return Stale(c, m)
		}
		only = append(only, c.Resource)
	}
	marks, err := a.Store.Marks(ctx, only...)
	if err != nil {
		return nil
	}
	for _, m := range marks {
		a.seen.learn(m)
		for _, c := range claims {
			if c.Resource == m.Resource && m.Token.Compare(c.Token) > 0 {
				return Stale(c, m)
			}
		}
	}
	return nil
}

// Known refuses claims that are already known to be below the mark, before there is a session: the ErrStale refusal, or
// nil. The claims need no issuer yet. It costs the store next to nothing and admits nobody.
func (a *Admission) Known(ctx context.Context, claims []fence.Claim) error {
	for _, c := range claims {
		m, ok := a.seen.get(c.Resource)
		if !ok || c.Token.Compare(m.Token) >= 0 {
			continue
		}
		if m, ok = a.present(ctx, m); !ok || c.Token.Compare(m.Token) >= 0 {
			continue
		}
		if is, err := a.Authority.Issuer(ctx); err == nil && is == m.Issuer {
			return a.setBack(ctx, Stale(c, m))
		}
	}
	return nil
}

// present is the mark as the store has it now, for an operator may have adopted a lower one; within a second it is the one
// that was seen. It is false when the store cannot say.
func (a *Admission) present(ctx context.Context, seen Mark) (Mark, bool) {
	if !a.seen.mayLook(seen.Resource) {
		return seen, true
	}
	ctx, cancel := context.WithTimeout(ctx, reasonTime)
	defer cancel()
	marks, err := a.Store.Marks(ctx, seen.Resource)
	if err != nil || len(marks) == 0 {
		return Mark{}, false
	}
	a.seen.learn(marks[0])
	return marks[0], true
}

func (a *Admission) admit(ctx context.Context, s Session, claims []fence.Claim) error {
	claims, err := a.issued(ctx, claims)
	if err != nil {
		return err
	}
	for {
		if err := a.refuseKnown(claims); err != nil {
			return err
		}
		st, err := a.Store.Register(ctx, s, claims)
		a.seen.learn(st.Mark)
		if err != nil {
			return a.asked(err)
		}
		switch st.Step {
		case Admitted:
			return nil
		case MustRaise:
			err = a.raise(ctx, st.Claim, st.Mark)
		case MustRevoke:
			err = a.revoke(ctx, s, st.Claim)
		}
		if err != nil {
			return a.asked(err)
		}
	}
}

// issued gives the claims their issuer.
func (a *Admission) issued(ctx context.Context, claims []fence.Claim) ([]fence.Claim, error) {
	is, err := a.Authority.Issuer(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]fence.Claim, len(claims))
	for i, c := range claims {
		c.Issuer = is
		out[i] = c
	}
	return out, nil
}

// refuseKnown refuses what this process has already seen a newer mark for. It spares the store a storm of retries, and
// it holds when the store has lost that mark.
func (a *Admission) refuseKnown(claims []fence.Claim) error {
	for _, c := range claims {
		if m, ok := a.seen.get(c.Resource); ok && m.Issuer == c.Issuer && c.Token.Compare(m.Token) < 0 {
			return Stale(c, m)
		}
	}
	return nil
}

// setBack looks whether a token that was refused as stale leads all the same. Then it is the coordinator that went back,
// such as one that was restored from a backup, and its leader must not be told that it is deposed. It stays refused.
func (a *Admission) setBack(ctx context.Context, stale error) error {
	var r *fence.Refusal
	if !errors.As(stale, &r) || !a.Authority.Verifies() || !a.seen.mayAsk(r.Claim) {
		return stale
	}
	m := Mark{Resource: r.Claim.Resource, Token: r.Mark}
	if _, err := a.Authority.Confirm(ctx, r.Claim, m); err != nil {
		return stale
	}
	return SetBack(r.Claim, m)
}

func (a *Admission) raise(ctx context.Context, c fence.Claim, m Mark) error {
	start := time.Now()
	if seen, ok := a.seen.get(c.Resource); ok && !m.Confirmed {
		m = seen // the store may have lost the mark; this process has not
		m.Confirmed = true
	}
	confirmed, err := a.Authority.Confirm(ctx, c, m)
	if err != nil {
		return err
	}
	before, err := a.Store.Raise(ctx, confirmed)
	if err != nil {
		return err
	}
	a.notify(Event{Kind: Raised, Claim: confirmed, Before: before, Took: time.Since(start)})
	return nil
}

func (a *Admission) revoke(ctx context.Context, s Session, c fence.Claim) error {
	start := time.Now()
	ended, err := a.Store.Revoke(ctx, c)
	if ended > 0 || err == nil {
		a.notify(Event{Kind: Revoked, Claim: c, Session: s, Ended: ended, Took: time.Since(start)})
	}
	return err
}

// asked makes sure that every error says what to do.
func (a *Admission) asked(err error) error {
	var r *fence.Refusal
	if err == nil || errors.As(err, &r) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &fence.Refusal{
			Reason: fence.Unrevoked, Cause: err,
			Message: "admission did not finish in time",
			Detail:  err.Error(),
			Hint:    "nothing was admitted; the mark may be raised; try again with the same token",
		}
	}
	return fmt.Errorf("the store could not be asked, nothing was admitted: %w", err)
}

func (a *Admission) notify(e Event) {
	if a.Notify != nil {
		a.Notify(e)
	}
}
