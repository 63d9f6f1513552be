package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Run runs the task for one term, from its checkpoint on, until it is done (nil), stopped
// (ErrStopped), ctx ends, or the term is lost (ErrLost). It returns the last checkpoint that it
// knows to be durable. A new leader's term comes from fence.Lead; Candidate does all of it.
//
// have is a copy of the checkpoint, or the zero Checkpoint; it spares reading it once more if it is
// the last one.
//
// While the term is suspended no step is begun. A step that is running when the term is lost has
// its context cancelled; Run waits for it. What it did then: as a synchronous step nothing, as an
// asynchronous one whatever it had done, and the next leader decides by Step.Unfinished.
func (t Task[S]) Run(
	ctx context.Context, term *fence.Term, j Journal, have Checkpoint,
) (Checkpoint, error) {
	return t.run(ctx, term, j, have, TakeOver{}, time.Now())
}

func (t Task[S]) run(
	ctx context.Context, term *fence.Term, j Journal, have Checkpoint, took TakeOver,
	raised time.Time,
) (Checkpoint, error) {
	if err := t.Validate(j); err != nil {
		return have, err
	}
	ctx, stop := within(ctx, term)
	defer stop()
	have.Task = t.Name
	r := &runner[S]{desk: desk{journal: j, claim: term.Claim(), notify: t.tell}, task: t, term: term}
	same, err := r.take(ctx, have)
	if err == nil {
		took.FirstStep, took.Reloaded = time.Since(raised), !same && have.Version > 0
		err = r.steps(ctx, took)
	}
	if errors.Is(err, fence.ErrStale) {
		term.Supersede(err)
		err = errors.Join(context.Cause(term.Context()), err)
	}
	return r.cp, err
}

// within is ctx that also ends, with its cause, when the term is lost.
func within(ctx context.Context, term *fence.Term) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(term.Context(), func() { cancel(context.Cause(term.Context())) })
	if term.State() == fence.Lost { // AfterFunc takes its time
		cancel(context.Cause(term.Context()))
	}
	return ctx, func() { unhook(); cancel(nil) }
}

// runner is one run of a task in one term.
type runner[S any] struct {
	desk
	task Task[S]
	term *fence.Term
}

// steps runs from the checkpoint that was taken to the end.
func (r *runner[S]) steps(ctx context.Context, took TakeOver) error {
	if err := r.begin(); err != nil {
		return err
	}
	r.notify(Event{Kind: TookOver, Checkpoint: r.cp, Step: r.cp.Next(), TakeOver: took})
	for r.cp.Status != Done {
		if err := r.wait(ctx); err != nil {
			return err
		}
		if err := r.step(ctx); err != nil {
			return err
		}
	}
	r.notify(Event{Kind: Completed, Checkpoint: r.cp})
	return nil
}

// begin makes what was taken fit the task, or says why it does not.
func (r *runner[S]) begin() error {
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
	case r.cp.Hash != Hash(names):
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

func (r *runner[S]) change(names []string) error {
	failed := &StepsChangedError{Task: r.task.Name, Saved: r.cp.Steps, Given: names, Next: r.cp.Next()}
	if r.task.Changed == nil {
		return failed
	}
	cp, err := r.task.Changed(r.cp.clone(), names)
	if err != nil {
		failed.Reason = err.Error()
		return failed
	}
	// whatever else was decided
	cp.Task, cp.Resource, cp.Version, cp.Steps = r.cp.Task, r.cp.Resource, r.cp.Version, names
	r.cp = cp
	return nil
}

// state is what the next step starts from: always what is stored, so that a step cannot come to
// rely on what is not.
func (r *runner[S]) state() (s S, err error) {
	if err := json.Unmarshal(r.cp.State, &s); err != nil {
		return s, fmt.Errorf("%w: the state of task %s at version %d does not fit %T: %w; "+
			"nothing was run: use the program that wrote it, or restart the task", ErrCorrupt,
			r.task.Name, r.cp.Version, s, err)
	}
	return s, nil
}

// wait lets nothing begin while leadership is suspended.
func (r *runner[S]) wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.term.State() == fence.Suspended {
		r.notify(Event{Kind: Paused, Checkpoint: r.cp, Step: r.cp.Next()})
	}
	return r.term.Wait(ctx)
}

// over tells whether ctx, made by within, has ended. The end of a term reaches ctx some time after
// the term itself, and a step's connections that end with the term may be faster: what then fails
// is no failure of the step's.
func (r *runner[S]) over(ctx context.Context) bool {
	if r.term.State() == fence.Lost {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}
