package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
)

// writer reads and writes one task's checkpoint under one claim. It retries while the journal fails
// for a while, and reads back a write whose answer was lost. It knows nothing of steps.
type writer struct {
	journal Journal
	claim   fence.Claim
	notify  func(Event)
	cp      Checkpoint // the last one known to be durable
}

// takeOver reads the checkpoint of a task, or keeps have if have is current.
func (w *writer) takeOver(ctx context.Context, have Checkpoint) (same bool, err error) {
	var found Checkpoint
	err = w.retry(ctx, func() (err error) {
		found, same, err = w.journal.TakeOver(ctx, w.claim, have.Task, have.Version)
		return err
	})
	if err != nil {
		return false, err
	}
	if same {
		found = have
	}
	if found.Version > 0 && found.Resource != w.claim.Resource {
		return same, fmt.Errorf("%w: %s was published by a leader of %q, this one leads %q; "+
			"nothing was run", ErrOtherResource, have.Task, found.Resource, w.claim.Resource)
	}
	if found.Version < have.Version {
		return same, fmt.Errorf("%w: task %s was seen at version %d, and is at %d: "+
			"the journal was set back, or the task was forgotten or deleted. Nothing was run: "+
			"restore it, or restart this process to continue from what is stored", ErrConflict,
			have.Task, have.Version, found.Version)
	}
	w.cp = found.clone()
	return same, nil
}

// publish makes next the checkpoint.
func (w *writer) publish(ctx context.Context, next Checkpoint) error {
	return w.publishAs(ctx, next, rand.Text())
}

// publishAs makes next the checkpoint, unless another one with the nonce has landed as the same
// version. Then that one is the checkpoint.
func (w *writer) publishAs(ctx context.Context, next Checkpoint, nonce string) error {
	next = w.stamp(next, nonce)
	err := w.retry(ctx, func() error {
		return w.resolve(ctx, &next, w.journal.Publish(ctx, w.claim, next))
	})
	return w.landed(next, err)
}

// landed records next if err says that it is durable.
func (w *writer) landed(next Checkpoint, err error) error {
	if err == nil {
		w.cp = next
	}
	return err
}

// stamp gives next the version after the durable one, and the claim, nonce and time.
func (w *writer) stamp(next Checkpoint, nonce string) Checkpoint {
	next.Version, next.Nonce = w.cp.Version+1, nonce
	next.Token, next.Issuer, next.Holder = w.claim.Token, w.claim.Issuer, w.claim.Holder
	next.Saved = time.Now().Round(0)
	return next
}

// resolve reads back a publish whose answer was lost or that met another version, and says whether
// it landed. If it did, next becomes the stored checkpoint. If it did not, the caller may publish
// next again, or another checkpoint with its nonce, even if the first publish is still on its way:
// only one of them finds the version before it.
func (w *writer) resolve(ctx context.Context, next *Checkpoint, err error) error {
	if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrConflict) {
		return err
	}
	var found Checkpoint
	asked := w.retry(ctx, func() (err error) {
		found, _, err = w.journal.TakeOver(ctx, w.claim, next.Task, 0)
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
	if found.Version == 0 {
		return fmt.Errorf("%w: task %s has no checkpoint any more, and this term expected version %d "+
			"and has written nothing: the task was forgotten or deleted while it ran, "+
			"or the journal was set back", ErrConflict, next.Task, next.Version-1)
	}
	return fmt.Errorf("%w: task %s is at version %d, published by %s under token %s; "+
		"this term expected %d and has written nothing: make sure that one process runs the task "+
		"in one term, and that the journal was not set back",
		ErrConflict, next.Task, found.Version, found.Holder, found.Token, next.Version-1)
}

// retry calls until the journal succeeds or fails in a way that retrying cannot fix. Retries use up
// none of a step's attempts. When ctx ends, retry returns its cause.
func (w *writer) retry(ctx context.Context, call func() error) error {
	for failed := 1; ; failed++ {
		err := call()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ended(ctx, err)
		}
		if errors.Is(err, fence.ErrStale) || !retryable(err) {
			return err
		}
		if errors.Is(err, fence.ErrNotRaised) { // the mark was lost, or never raised here
			if raised := w.journal.Raise(ctx, w.claim); raised != nil && !retryable(raised) {
				return fmt.Errorf("raise the mark of the journal for %s: %w", w.claim, raised)
			}
		}
		wait := journalBackoff(failed)
		w.notify(Event{Kind: taskevent.Interrupted, Checkpoint: w.cp, Err: err, Wait: wait})
		if pause(ctx, wait) != nil {
			return ended(ctx, err)
		}
	}
}

// ended returns the cause of ctx, and the unknown outcome if there is one.
func ended(ctx context.Context, open error) error {
	if errors.Is(open, ErrUnknown) {
		return fmt.Errorf("%w; the last checkpoint may have landed: %w", context.Cause(ctx), open)
	}
	return context.Cause(ctx)
}

// retryable reports whether the error is the journal's, and retrying, after a raise where needed,
// can fix it. A journal returns a step's error unchanged unless it wraps it in ErrTransient, so an
// error that is still the step's own is not retried here, whatever it matches.
func retryable(err error) bool {
	if _, own := err.(*stepError); own {
		return false
	}
	if errors.Is(err, fence.ErrStale) || errors.Is(err, ErrConflict) {
		return false
	}
	return errors.Is(err, ErrTransient) || errors.Is(err, ErrUnknown) || fence.Temporary(err)
}
