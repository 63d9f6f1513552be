package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// Runner runs a task on one of several processes. It campaigns, follows the checkpoint while it
// waits, and continues the task when it leads. Start one in as many processes as you like.
type Runner[S any] struct {
	// Lead says in which election this process takes part, and under which name. The mark is raised
	// on Lead.Stores, which need not contain the journal, and then on the journal.
	Lead    fence.Lead
	Journal Journal
	Task    Task[S]
	// Observer is the coordinator. It reports how long detection and election took; may be nil.
	Observer elector.Observer
}

// Run campaigns, runs the task while it leads, and campaigns again after a lost term. It returns
//
//   - nil when the task is done, by this process or another one,
//   - ErrStopped when the task is stopped,
//   - the cause of ctx when ctx ends,
//   - an error that retrying cannot fix: a refusal of the coordinator, ErrBadTask,
//     ErrStepsChanged, ErrCorrupt, ErrConflict, fence.ErrOtherIssuer, fence.ErrNotInstalled.
//
// The checkpoint is the last one that this process knows to be durable.
func (r Runner[S]) Run(ctx context.Context) (Checkpoint, error) {
	s := &standby{Elector: campaigner{r.Lead.Elector}, journal: r.Journal, observer: r.Observer,
		task: r.Task.Name}
	defer s.following.Wait()
	lead := r.Lead
	lead.Elector = s
	lead.Stores = append(slices.Clone(lead.Stores), r.Journal)
	ended := func() error { return context.Cause(ctx) }
	return r.repeat(ctx, ended, func(last *Checkpoint) (worked bool, err error) {
		defer func() { s.forget(*last) }()
		err = lead.Run(ctx, func(ctx context.Context, term *fence.Term) (err error) {
			took, raised := s.took()
			worked = true
			*last, err = r.Task.run(ctx, term, r.Journal, s.copy(), took, raised)
			return err
		})
		return worked, err // the resignation may have failed although the task is done
	})
}

// RunIn runs the task in a term that the caller has won and gives up afterwards. It raises the mark
// on Lead.Stores and on the journal first, and uses nothing else of Lead. It returns what Run
// returns, and also the cause of the term once that is lost.
func (r Runner[S]) RunIn(ctx context.Context, term *fence.Term) (Checkpoint, error) {
	ended := func() error {
		if ctx.Err() == nil && term.State() == fence.Lost {
			return context.Cause(term.Context())
		}
		return context.Cause(ctx)
	}
	return r.repeat(ctx, ended, func(last *Checkpoint) (worked bool, err error) {
		if err := r.raise(ctx, term); err != nil {
			return false, superseding(term, err)
		}
		*last, err = r.Task.Run(ctx, term, r.Journal, *last)
		return true, err
	})
}

// repeat calls once until the task is done, ended returns a cause, or retrying cannot fix the
// error. once keeps the last durable checkpoint, and reports whether the task was run at all.
func (r Runner[S]) repeat(
	ctx context.Context, ended func() error, once func(last *Checkpoint) (worked bool, err error),
) (Checkpoint, error) {
	last := Checkpoint{Task: r.Task.Name}
	if err := r.Task.Validate(r.Journal); err != nil {
		return last, err
	}
	for failed := 1; ; failed++ {
		began := time.Now()
		worked, err := once(&last)
		if worked && time.Since(began) >= maxTermBackoff {
			failed = 1
		}
		cause := ended()
		switch {
		case worked && last.Status == Done:
			return last, nil
		case cause != nil:
			return last, errors.Join(cause, unless(err, cause))
		case !campaignAgain(worked, err):
			return last, err
		}
		wait := termBackoff(failed)
		r.Task.notify(Event{Kind: taskevent.Interrupted, Checkpoint: last, Err: err, Wait: wait})
		_ = pause(ctx, wait)
	}
}

// termBackoff is the wait between two terms, where one after the other ends soon.
var termBackoff = Exponential(10*time.Millisecond, maxTermBackoff)

const maxTermBackoff = 10 * time.Second

// raise raises the mark on every store and on the journal.
func (r Runner[S]) raise(ctx context.Context, term *fence.Term) error {
	for _, s := range append(slices.Clone(r.Lead.Stores), fence.Raiser(r.Journal)) {
		if err := s.Raise(ctx, term.Claim()); err != nil {
			return fmt.Errorf("raise the mark for %s: %w", term.Claim(), err)
		}
	}
	return nil
}

// unless drops an error that only repeats the cause.
func unless(err, cause error) error {
	if errors.Is(err, cause) && !errors.Is(err, ErrUnknown) {
		return nil
	}
	return err
}

// campaignAgain reports whether to campaign again after a term ended with err. worked is false if
// work never started.
func campaignAgain(worked bool, err error) bool {
	for _, final := range []error{errCampaign, ErrStopped, ErrConflict, ErrBadTask} {
		if errors.Is(err, final) {
			return false
		}
	}
	if fence.Permanent(err) {
		return false
	}
	if !worked { // a store could not raise the mark; it may the next time
		return true
	}
	return errors.Is(err, fence.ErrLost) || retryable(err)
}

// errCampaign marks an error of Campaign. An elector retries by itself what retrying can fix, so
// this error is final.
var errCampaign = errors.New("the coordinator refused")

type campaigner struct{ fence.Elector }

// Campaign implements fence.Elector.
func (c campaigner) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	term, err := c.Elector.Campaign(ctx, r, holder)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCampaign, err)
	}
	return term, nil
}
