package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ringfence/ringfence/fence"
)

// Candidate is one copy of a program that runs a task: it stands for election, follows the
// checkpoint while it waits, and goes on with the task whenever it leads. Start as many as you
// like.
type Candidate[S any] struct {
	// Lead says where and as who this candidate stands. The mark is raised on its Stores, which
	// need not name the journal, and then on the journal.
	Lead    fence.Lead
	Journal Journal
	Task    Task[S]
	// the coordinator, to report how long a take-over's election took; may be nil
	Observer fence.Observer
}

// Run stands for election again and again until the task is done, whoever did it (nil), or stopped
// (ErrStopped), or ctx ends (its cause), or what it meets will not go away by itself: a refusal of
// the coordinator, ErrBadTask, ErrStepsChanged, ErrCorrupt, ErrConflict, fence.ErrOtherIssuer,
// fence.ErrNotInstalled. The checkpoint is the last that this process knows to be durable.
func (c Candidate[S]) Run(ctx context.Context) (Checkpoint, error) {
	if err := c.Task.Validate(c.Journal); err != nil {
		return Checkpoint{Task: c.Task.Name}, err
	}
	s := &standby{Elector: campaigner{c.Lead.Elector}, journal: c.Journal, observer: c.Observer,
		task: c.Task.Name}
	defer s.following.Wait()
	lead := c.Lead
	lead.Elector = s
	lead.Stores = append(slices.Clone(lead.Stores), c.Journal)
	last := Checkpoint{Task: c.Task.Name}
	for failed := 1; ; failed++ {
		worked := false
		err := lead.Run(ctx, func(ctx context.Context, term *fence.Term) (err error) {
			took, raised := s.took()
			worked, failed = true, 0
			last, err = c.Task.run(ctx, term, c.Journal, s.copy(), took, raised)
			return err
		})
		switch {
		case worked && last.Status == Done:
			return last, nil // whatever became of the resignation
		case ctx.Err() != nil:
			return last, errors.Join(context.Cause(ctx), unless(err, context.Cause(ctx)))
		case !another(worked, err):
			return last, err
		}
		s.forget(last)
		wait := journalBackoff(failed + 1)
		c.Task.tell(Event{Kind: Interrupted, Checkpoint: last, Err: err, Wait: wait})
		_ = pause(ctx, wait)
	}
}

// unless leaves out an error that says nothing but why ctx ended.
func unless(err, cause error) error {
	if errors.Is(err, cause) && !errors.Is(err, ErrUnknown) {
		return nil
	}
	return err
}

// another says whether to stand again after a term, or an attempt at one, that has ended with err.
func another(worked bool, err error) bool {
	for _, final := range []error{errCampaign, ErrStopped, ErrConflict, ErrBadTask,
		fence.ErrOtherIssuer, fence.ErrNotInstalled, fence.ErrNoToken, fence.ErrMalformed,
		fence.ErrNotAllowed} {
		if errors.Is(err, final) {
			return false
		}
	}
	if !worked { // a store could not raise the mark: it may yet
		return true
	}
	return errors.Is(err, fence.ErrLost) || passing(err)
}

// errCampaign marks what a coordinator refuses for good: what waiting can mend, an elector waits
// for.
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
