package fence

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Raiser raises the mark of one store. A new leader calls it before its work starts.
type Raiser interface {
	// Raise raises the mark to the claim and returns when every session under an older token is
	// gone. It returns a *Refusal (ErrStale, ErrUnrevoked, …) or an error of the connection. After
	// an error the mark may or may not be raised.
	Raise(ctx context.Context, c Claim) error
}

// Lead runs work as the leader of a resource, for one term at a time.
type Lead struct {
	Elector  Elector
	Resource Resource
	Holder   string   // who this process is, for people; for example host name and process id
	Stores   []Raiser // the mark is raised on every one before work starts

	// Unacknowledged leaves out the acknowledgement, which costs a write, where nobody waits for it.
	Unacknowledged bool

	// Again is called by Repeat, with the error of the last term and the wait until the next campaign.
	Again func(err error, wait time.Duration)

	// Release bounds how long Run takes to tell the coordinator that the term is over; 5 s when zero.
	Release time.Duration
}

// Run campaigns, raises the mark on every store, acknowledges, calls work once, and resigns. Run
// holds one term; call it again to campaign again.
//
// The context of work ends with the term or with ctx, and context.Cause says which. Then work must
// return. Run waits for it before it gives the term up, so that the next leader starts after this
// leader's work has stopped.
//
// Run returns the error of work, joined with the cause if the term was lost (errors.Is ErrLost). An
// error that refuses the term's own token as stale (Claim.IsStale) supersedes the term. A term that
// ends because work has returned is no error. If the mark cannot be raised on some store, this
// process does not lead, and Run does not call work.
func (l Lead) Run(ctx context.Context, work func(ctx context.Context, t *Term) error) error {
	term, err := l.campaign(ctx)
	if err != nil {
		return err
	}
	return l.run(ctx, term, work)
}

func (l Lead) campaign(ctx context.Context) (*Term, error) {
	term, err := l.Elector.Campaign(ctx, l.Resource, l.Holder)
	if err != nil {
		return nil, fmt.Errorf("campaign for %s: %w", l.Resource, err)
	}
	return term, nil
}

// run is Run in a term that is won.
func (l Lead) run(
	ctx context.Context, term *Term, work func(ctx context.Context, t *Term) error,
) error {
	termCtx, stop := within(ctx, term)
	defer stop()
	err := l.raise(termCtx, term)
	if err == nil {
		err = work(termCtx, term)
	}
	if term.Claim().IsStale(err) {
		term.Supersede(err)
	}
	if term.State() == Lost {
		if cause := context.Cause(term.Context()); !errors.Is(err, cause) { // work may have returned it
			err = errors.Join(cause, err)
		}
	}
	return errors.Join(err, l.resign(ctx, term))
}

// raise raises the mark on every store and then acknowledges.
func (l Lead) raise(ctx context.Context, term *Term) error {
	for i, s := range l.Stores {
		if err := s.Raise(ctx, term.Claim()); err != nil {
			return fmt.Errorf("not leader yet: raise the mark for %s on store %d of %d: %w",
				term.Claim(), i+1, len(l.Stores), err)
		}
	}
	if l.Unacknowledged {
		return nil
	}
	if err := term.Acknowledge(ctx); err != nil {
		return fmt.Errorf("acknowledge %s: %w", term.Claim(), err)
	}
	return nil
}

// resign gives the term up even if ctx has ended: the next leader is waiting.
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

// within returns a context that ends with ctx, or with the term and its cause.
func within(ctx context.Context, term *Term) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(term.Context(), func() { cancel(context.Cause(term.Context())) })
	return ctx, func() { unhook(); cancel(nil) }
}
