package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/checkpoint/taskevent"
	"github.com/ringfence/ringfence/fence"
)

// Run runs the task from its checkpoint, for one term: until the task is done (nil) or stopped
// (ErrStopped), ctx ends, or the term is lost (ErrLost). It returns the last checkpoint that it
// knows to be durable. The term comes from fence.Lead. Runner wins terms and calls Run.
//
// have is a copy of the checkpoint, or the zero Checkpoint. If it is current, the checkpoint is not
// read again.
//
// No step begins while the term is suspended. When the term is lost, Run cancels the context of the
// running step and waits for it. A synchronous step has then had no effects. An asynchronous one
// may have had some; the next leader treats it as Step.Unfinished says.
func (t Task[S]) Run(
	ctx context.Context, term *fence.Term, j Journal, have Checkpoint,
) (Checkpoint, error) {
	return t.run(ctx, term, j, have, taskevent.TakeOver{}, time.Now())
}

func (t Task[S]) run(
	ctx context.Context, term *fence.Term, j Journal, have Checkpoint, took taskevent.TakeOver,
	raised time.Time,
) (Checkpoint, error) {
	if err := t.Validate(j); err != nil {
		return have, err
	}
	ctx, stop := within(ctx, term)
	defer stop()
	have.Task = t.Name
	r := &termRunner[S]{writer: writer{journal: j, claim: term.Claim(), notify: t.notify},
		task: t, term: term}
	same, err := r.takeOver(ctx, have)
	if err == nil {
		took.FirstStep, took.Reloaded = time.Since(raised), !same && have.Version > 0
		err = r.steps(ctx, took)
	}
	return r.cp, superseding(term, err)
}

// superseding ends the term if err says that its token is stale, and adds the cause to err.
func superseding(term *fence.Term, err error) error {
	if !term.Claim().IsStale(err) {
		return err
	}
	term.Supersede(err)
	return errors.Join(context.Cause(term.Context()), err)
}

// within returns a context that ends with ctx or with the term, and has the cause of either.
func within(ctx context.Context, term *fence.Term) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(term.Context(), func() { cancel(context.Cause(term.Context())) })
	if term.State() == fence.Lost { // AfterFunc runs in another goroutine, later
		cancel(context.Cause(term.Context()))
	}
	return ctx, func() { unhook(); cancel(nil) }
}

// termRunner runs a task in one term.
type termRunner[S any] struct {
	writer
	task Task[S]
	term *fence.Term

	// All attempts of a synchronous step, and the checkpoint that stops the task at it, share one
	// nonce. A COMMIT whose answer was lost may land late, and is recognized by it.
	nonce string
	lost  Checkpoint // the last checkpoint of the current step whose answer was lost
}

// steps runs the task from the checkpoint to its end.
func (r *termRunner[S]) steps(ctx context.Context, took taskevent.TakeOver) error {
	if err := r.begin(); err != nil {
		return err
	}
	r.notify(Event{Kind: taskevent.TookOver, Checkpoint: r.cp, Step: r.cp.Next(), TakeOver: took})
	for r.cp.Status != Done {
		if err := r.wait(ctx); err != nil {
			return err
		}
		if err := r.step(ctx); err != nil {
			return err
		}
	}
	r.notify(Event{Kind: taskevent.Completed, Checkpoint: r.cp})
	return nil
}

// begin fits the checkpoint to the task, or says why it cannot.
func (r *termRunner[S]) begin() error {
	names := r.task.names()
	switch {
	case r.cp.Version == 0:
		r.cp = Checkpoint{Task: r.task.Name, Resource: r.claim.Resource, Run: 1, Round: 1,
			Steps: names, Status: Running}
	case r.cp.Status == Done:
		return nil
	case r.cp.Status == Stopped:
		return &StoppedError{Checkpoint: r.cp}
	case r.cp.untouched():
		r.cp.Steps = names
	case !slices.Equal(r.cp.Steps, names):
		if err := r.change(names); err != nil {
			return err
		}
	}
	r.cp.Rounds = r.task.rounds()
	if r.cp.Status != Running && r.cp.Status != Started {
		return fmt.Errorf("%w: task %s: there is no status %q; nothing was run: "+
			"use the program that wrote it, or restart the task", ErrCorrupt, r.task.Name, r.cp.Status)
	}
	if r.cp.Step < 0 || r.cp.Step >= len(names) || r.cp.Round < 1 {
		return fmt.Errorf("%w: task %s: its next step is number %d of %d in round %d; "+
			"nothing was run", ErrCorrupt, r.task.Name, r.cp.Step+1, len(names), r.cp.Round)
	}
	if r.cp.untouched() {
		state, err := encode(r.task.Start, r.task.stateLimit())
		if err != nil {
			return fmt.Errorf("%w: task %s: %w", ErrBadTask, r.task.Name, err)
		}
		r.cp.State = state
	}
	_, err := r.state()
	return err
}

func (r *termRunner[S]) change(names []string) error {
	failed := &StepsChangedError{Task: r.task.Name, Saved: r.cp.Steps, Given: names, Next: r.cp.Next()}
	if r.task.OnStepsChanged == nil {
		return failed
	}
	cp, err := r.task.OnStepsChanged(r.cp.clone(), names)
	if err != nil {
		failed.Reason = err.Error()
		return failed
	}
	// OnStepsChanged may not change these.
	cp.Task, cp.Resource, cp.Version, cp.Steps = r.cp.Task, r.cp.Resource, r.cp.Version, names
	r.cp = cp
	return nil
}

// state decodes the state for the next step. Every step gets the stored state, never a value in
// memory, so that no step relies on fields that are not stored.
func (r *termRunner[S]) state() (s S, err error) {
	if err := json.Unmarshal(r.cp.State, &s); err != nil {
		return s, fmt.Errorf("%w: the state of task %s at version %d does not fit %T: %w; "+
			"nothing was run: use the program that wrote it, or restart the task", ErrCorrupt,
			r.task.Name, r.cp.Version, s, err)
	}
	return s, nil
}

// wait waits while the term is suspended.
func (r *termRunner[S]) wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.term.State() == fence.Suspended {
		r.notify(Event{Kind: taskevent.Paused, Checkpoint: r.cp, Step: r.cp.Next()})
	}
	return r.term.Wait(ctx)
}

// over reports whether ctx, made by within, has ended. If the term is lost, it first waits for ctx:
// a step's connections end with the term and may fail before ctx ends, and such an error is not the
// step's fault.
func (r *termRunner[S]) over(ctx context.Context) bool {
	if r.term.State() == fence.Lost {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}
