package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// desk is one leader at one task's checkpoint: it asks the journal for as long as it takes, and
// reads back what it could not hear. It knows nothing of steps.
type desk struct {
	journal Journal
	claim   fence.Claim
	notify  func(Event)
	cp      Checkpoint // the last that is known to be durable
}

// take reads the checkpoint of a task, unless have is it.
func (d *desk) take(ctx context.Context, have Checkpoint) (same bool, err error) {
	var found Checkpoint
	err = d.insist(ctx, func() (err error) {
		found, same, err = d.journal.Take(ctx, d.claim, have.Task, have.Version)
		return err
	})
	if err != nil {
		return false, err
	}
	if same {
		found = have
	}
	if found.Version > 0 && found.Resource != d.claim.Resource {
		return same, fmt.Errorf("%w: %s was published by a leader of %q, this one leads %q; "+
			"nothing was run", ErrOtherResource, have.Task, found.Resource, d.claim.Resource)
	}
	if found.Version < have.Version {
		return same, fmt.Errorf("%w: task %s was seen at version %d, and is at %d: "+
			"the journal was set back, or the task was deleted. Nothing was run: "+
			"restore it, or start this process anew to go on from what is stored", ErrConflict,
			have.Task, have.Version, found.Version)
	}
	d.cp = found.clone()
	return same, nil
}

// publish makes next the checkpoint.
func (d *desk) publish(ctx context.Context, next Checkpoint) error {
	next = d.seal(next, rand.Text())
	err := d.insist(ctx, func() error {
		return d.settle(ctx, &next, d.journal.Publish(ctx, d.claim, next))
	})
	return d.landed(next, err)
}

// landed takes note of next once it is durable.
func (d *desk) landed(next Checkpoint, err error) error {
	if err == nil {
		d.cp = next
	}
	return err
}

// seal makes next the follower of what is known to be durable.
func (d *desk) seal(next Checkpoint, nonce string) Checkpoint {
	next.Version, next.Nonce, next.Hash = d.cp.Version+1, nonce, Hash(next.Steps)
	next.Token, next.Holder, next.Saved = d.claim.Token, d.claim.Holder, time.Now().Round(0)
	return next
}

// settle finds out what became of a publish whose answer was lost, or that met another version:
// nobody may guess. It is safe to publish next once more, or another one with its nonce, when it
// has not landed, however late the first one does: only one of them finds the version before. next
// is set to the one that did.
func (d *desk) settle(ctx context.Context, next *Checkpoint, err error) error {
	if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrConflict) {
		return err
	}
	var found Checkpoint
	asked := d.insist(ctx, func() (err error) {
		found, _, err = d.journal.Take(ctx, d.claim, next.Task, 0)
		return err
	})
	switch {
	case asked != nil && ctx.Err() != nil:
		return err
	case asked != nil:
		return fmt.Errorf("%v; reading it back: %w", err, asked)
	case found.Version == next.Version && found.Nonce == next.Nonce:
		*next = found
		return nil
	case found.Version == next.Version-1:
		return fmt.Errorf("%w: it was read back and has not landed: %v", ErrTransient, err)
	}
	return fmt.Errorf("%w: task %s is at version %d, published by %s under token %s; "+
		"this term expected %d and has written nothing: make sure that one process runs the task "+
		"in one term, and that the journal was not set back",
		ErrConflict, next.Task, found.Version, found.Holder, found.Token, next.Version-1)
}

// insist calls until the journal has given an answer that asking again cannot change. It does not
// spend the attempts of any step, and ends with ctx, whose cause it then returns.
func (d *desk) insist(ctx context.Context, call func() error) error {
	for failed := 1; ; failed++ {
		err := call()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ended(ctx, err)
		}
		if errors.Is(err, fence.ErrStale) || !passing(err) {
			return err
		}
		if errors.Is(err, fence.ErrNotLeader) { // the mark was lost, or never raised here
			if raised := d.journal.Raise(ctx, d.claim); raised != nil && !passing(raised) {
				return fmt.Errorf("raise the mark of the journal for %s: %w", d.claim, raised)
			}
		}
		wait := journalBackoff(failed)
		d.notify(Event{Kind: Interrupted, Checkpoint: d.cp, Err: err, Wait: wait})
		if pause(ctx, wait) != nil {
			return ended(ctx, err)
		}
	}
}

// ended is why ctx ended, and what was still open then.
func ended(ctx context.Context, open error) error {
	if errors.Is(open, ErrUnknown) {
		return fmt.Errorf("%w; the last checkpoint may have landed: %w", context.Cause(ctx), open)
	}
	return context.Cause(ctx)
}

// passing errors go away by themselves, or with a raise.
func passing(err error) bool {
	if errors.Is(err, fence.ErrStale) || errors.Is(err, ErrConflict) {
		return false
	}
	return errors.Is(err, ErrTransient) || errors.Is(err, ErrUnknown) ||
		errors.Is(err, fence.ErrUnrevoked) || errors.Is(err, fence.ErrNotLeader)
}
