package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/ringfence/ringfence/checkpoint/taskevent"
)

// stepError is an error that the step returned or caused; the step's Retry applies to it.
type stepError struct{ error }

func (e *stepError) Unwrap() error { return e.error }

// step runs the next step until its end is durable or it has failed for good.
func (r *termRunner[S]) step(ctx context.Context) error {
	step := r.task.Steps[r.cp.Step]
	r.nonce, r.lost = rand.Text(), Checkpoint{}
	ran, err := r.start(ctx, step)
	if err == nil && !ran {
		err = r.wait(ctx) // the term may have been suspended meanwhile
	}
	for attempt := 1; err == nil && !ran; attempt++ {
		r.notify(Event{Kind: taskevent.Began, Checkpoint: r.cp, Step: step.Name, Attempt: attempt})
		began, before := time.Now(), r.cp.Version
		if err = r.attempt(ctx, step); err != nil {
			err = r.again(ctx, step, attempt, err)
		}
		if err == nil && r.cp.Version > before { // by this attempt, or by an earlier one that landed late
			r.notify(Event{Kind: taskevent.Ended, Checkpoint: r.cp, Step: step.Name, Attempt: attempt,
				Took: time.Since(began)})
			return nil
		}
	}
	return err
}

// again waits and returns nil if the step is to be attempted once more. It also returns nil if the
// step has ended after all: see halt.
func (r *termRunner[S]) again(ctx context.Context, step Step[S], attempt int, err error) error {
	var own *stepError
	switch {
	case r.over(ctx):
		return ended(ctx, err)
	case r.claim.IsStale(err), !errors.As(err, &own):
		return err
	}
	policy := r.task.Retry
	if step.Retry != nil {
		policy = *step.Retry
	}
	wait, again := policy.again(attempt, own.error)
	if !again {
		return r.halt(ctx, step, attempt, own.error)
	}
	r.notify(Event{Kind: taskevent.Retrying, Checkpoint: r.cp, Step: step.Name, Attempt: attempt,
		Err: own.error, Wait: wait})
	if err := pause(ctx, wait); err != nil {
		return err
	}
	return r.wait(ctx)
}

// attempt runs the step once and publishes its end.
func (r *termRunner[S]) attempt(ctx context.Context, step Step[S]) error {
	s, err := r.state()
	if err != nil {
		return err
	}
	if step.transact != nil {
		return r.transact(ctx, step, s)
	}
	s, err = protect(func() (S, error) { return step.Run(ctx, s, r.cp.Key()) })
	if err != nil {
		return &stepError{err}
	}
	return r.finish(ctx, s)
}

// finish publishes the end of an asynchronous step.
func (r *termRunner[S]) finish(ctx context.Context, s S) error {
	next, err := r.after(s)
	if err != nil {
		return err
	}
	return stepFault(r.publish(ctx, next))
}

// after returns the checkpoint that ends the current step.
func (r *termRunner[S]) after(s S) (Checkpoint, error) {
	state, err := encode(s, r.task.stateLimit())
	if err != nil {
		return Checkpoint{}, &stepError{err}
	}
	return r.cp.advance(state), nil
}

// stepFault turns an error of the journal that the step has caused into a stepError.
func stepFault(err error) error {
	if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrUncommitted) {
		return &stepError{err}
	}
	return err
}

// transact runs a synchronous step. It retries after errors of the journal; a failed attempt leaves
// nothing behind.
func (r *termRunner[S]) transact(ctx context.Context, step Step[S], s S) error {
	var next Checkpoint
	calls := 0
	err := r.retry(ctx, func() error {
		next = Checkpoint{}
		if calls++; calls > 1 {
			if err := r.wait(ctx); err != nil { // the term may have been suspended meanwhile
				return err
			}
		}
		err := step.transact(ctx, r.journal, r.claim, s, func(s S) (Checkpoint, error) {
			after, err := r.after(s)
			if err != nil {
				return after, err
			}
			next = r.stamp(after, r.nonce)
			return next, nil
		})
		if next.Version > 0 && errors.Is(err, ErrUnknown) { // else it is the step's error
			r.lost = next
		}
		if next.Version > 0 {
			return r.resolve(ctx, &next, err)
		}
		if r.lost.Version == 0 || err == nil || retryable(err) || r.claim.IsStale(err) {
			return err
		}
		// It failed before it had a checkpoint, maybe because the earlier attempt has landed meanwhile.
		next = r.lost
		if landed := r.resolve(ctx, &next, ErrUnknown); !errors.Is(landed, ErrTransient) {
			return landed
		}
		return err
	})
	return stepFault(r.landed(next, err))
}

// halt stops the task and records why. It returns nil if an attempt of the step whose answer was
// lost has landed meanwhile, so that the step has ended.
func (r *termRunner[S]) halt(ctx context.Context, step Step[S], attempts int, cause error) error {
	f := Failure{Step: step.Name, Attempts: attempts, Message: excerpt(cause.Error(), 4<<10),
		At: time.Now().Round(0)}
	var p *PanicError
	if errors.As(cause, &p) {
		f.Stack = excerpt(p.Stack, 8<<10)
	}
	err := r.publishAs(ctx, r.cp.stop(f), r.nonce)
	if errors.Is(err, ErrTooLarge) { // the state leaves little room
		f.Message, f.Stack = excerpt(f.Message, 200), ""
		err = r.publishAs(ctx, r.cp.stop(f), r.nonce)
	}
	if err != nil {
		return errors.Join(err, &stepError{cause})
	}
	if r.cp.Status != Stopped {
		return nil
	}
	r.notify(Event{Kind: taskevent.Halted, Checkpoint: r.cp, Step: step.Name, Attempt: attempts,
		Err: cause})
	return &StoppedError{Checkpoint: r.cp, Cause: cause}
}

func excerpt(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
