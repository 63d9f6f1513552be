package fence

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Raiser is a store as a new leader sees it.
type Raiser interface {
	// Raise lifts the store's mark to the claim and returns once every session under an older token is gone. After an
	// error the mark may or may not be raised. Errors are refusals (ErrStale, ErrUnrevoked, …) or failures to ask.
	Raise(ctx context.Context, c Claim) error
}

// Lead runs work as the leader of a resource, for one term at a time.
type Lead struct {
	Elector  Elector
	Resource Resource
	Holder   string   // who this process is, for people; for example host name and process id
	Stores   []Raiser // the mark is raised on every one before work starts

	// Release bounds how long Run takes to tell the coordinator that the term is over; 5 s when zero.
	Release time.Duration
}

// Run campaigns, raises the mark on every store, acknowledges, and runs work once; then it resigns. It holds one term
// and returns: call it again to campaign again.
//
// work's context ends with the term, or with ctx; context.Cause tells which. work must return then: Run waits for it,
// and only after that gives the term up, so that the next leader starts after this one's work has stopped.
//
// The error is work's own, joined with the cause when the term was lost (errors.Is ErrLost); a term that ends by
// work's return is no error. A raise that fails on any store means that this process does not lead: work is not run.
func (l Lead) Run(ctx context.Context, work func(ctx context.Context, t *Term) error) error {
	term, err := l.Elector.Campaign(ctx, l.Resource, l.Holder)
	if err != nil {
		return fmt.Errorf("campaign for %s: %w", l.Resource, err)
	}
	termCtx, stop := within(ctx, term)
	defer stop()
	err = l.raise(termCtx, term)
	if err == nil {
		err = work(termCtx, term)
	}
	if errors.Is(err, ErrStale) {
		term.Supersede(err)
	}
	if term.State() == Lost {
		err = errors.Join(context.Cause(term.Context()), err)
	}
	return errors.Join(err, l.resign(ctx, term))
}

// raise makes the elected a leader: every store first, then the acknowledgement.
func (l Lead) raise(ctx context.Context, term *Term) error {
	for i, s := range l.Stores {
		if err := s.Raise(ctx, term.Claim()); err != nil {
			return fmt.Errorf("not leader yet: raise the mark for %s on store %d of %d: %w", term.Claim(), i+1, len(l.Stores), err)
		}
	}
	if err := term.Acknowledge(ctx); err != nil {
		return fmt.Errorf("acknowledge %s: %w", term.Claim(), err)
	}
	return nil
}

// resign goes on after ctx has ended: the next leader is waiting for it.
func (l Lead) resign(ctx context.Context, term *Term) error {
	wait := l.Release
	if wait == 0 {
		wait = 5 * time.Second
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	lost := term.State() == Lost
	if err := term.Resign(ctx); err != nil && !lost {
		return fmt.Errorf("resign %s: %w", term.Claim(), err)
	}
	return nil
}

// within is ctx that also ends, with its cause, when the term is lost.
func within(ctx context.Context, term *Term) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(term.Context(), func() { cancel(context.Cause(term.Context())) })
	return ctx, func() { unhook(); cancel(nil) }
}
