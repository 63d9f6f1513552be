package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

const (
	// publishTimeout bounds how long a worker tries to publish what a try has brought, while its term
	// lasts.
	publishTimeout = time.Minute
	// beginTimeout is how long a worker that is elected tries to begin. Then another one may try.
	beginTimeout = 15 * time.Second
)

// errNotMine: the job is not, or no longer, this try's.
var errNotMine = errors.New("the job is not this worker's")

// try is a job that is assigned to this worker.
type try struct {
	runner  *runner
	id      job.ID
	attempt int
	worker  fence.Token // the member to which it is assigned
	ctx     context.Context
	cancel  context.CancelCauseFunc
	running *Run // whose handler runs; guarded by the runner's mutex
	// its handler was called; guarded by the runner's mutex. Only run's goroutine writes it
	begun bool
	ended bool // what it has brought is published; of run's goroutine
}

// run runs the job until it has ended, or is another's.
func (t *try) run() {
	defer t.cancel(nil)
	defer t.sayIfLost()
	select {
	case t.runner.slots <- struct{}{}:
		defer func() { <-t.runner.slots }()
		t.lead()
	case <-t.ctx.Done():
	}
	q := t.runner.Queue.store
	switch why := context.Cause(t.ctx); {
	case errors.Is(why, ErrStopping):
		t.giveBack(nil)
	case errors.Is(why, ErrCancelled):
		for !t.settle("cancelled", q.Cancelled) && !t.runner.stops() {
		}
	}
}

// lead stands for election for the job's resource, and runs the job in the term, again and again
// until the job has ended or is another's. If it cannot begin for a while, such as when a store
// does not answer, it gives the job back.
func (t *try) lead() {
	s := t.runner
	var failing time.Time // since then the job could not begin
	for failures := 1; t.ctx.Err() == nil; failures++ {
		began := false
		first, spec, err := s.Queue.store.Open(t.ctx, t.id)
		if err == nil && !t.mine(first.Status) || errors.Is(err, job.ErrNotFound) {
			return
		}
		if err == nil {
			lead := fence.Lead{
				Elector: s.Queue.store.At, Resource: first.Resource, Stores: bounded(s.Stores),
				Holder: fmt.Sprintf("%s, job %s", s.Name, t.id), Unacknowledged: true,
			}
			err = lead.Run(t.ctx, func(ctx context.Context, term *fence.Term) error {
				began = true
				return t.work(ctx, term, first, spec)
			})
		}
		if err == nil || errors.Is(err, errNotMine) || t.ctx.Err() != nil {
			return
		}
		switch {
		case began:
			failing = time.Time{}
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) >= beginTimeout:
			s.Log.Warn("a job cannot begin here; it is given back", "job", string(t.id), "error", err)
			if t.giveBack(err) {
				return
			}
		}
		s.Log.Warn("a job could not be run; trying again", "job", string(t.id), "error", err)
		backoff.Pause(t.ctx, backoff.After(failures, backoff.Min, backoff.Max))
	}
}

// bounded bounds how long a raise may take on each store.
func bounded(stores []fence.Raiser) (all []fence.Raiser) {
	for _, s := range stores {
		all = append(all, boundedRaiser{s})
	}
	return all
}

type boundedRaiser struct{ store fence.Raiser }

// Raise implements fence.Raiser.
func (r boundedRaiser) Raise(ctx context.Context, c fence.Claim) error {
	ctx, cancel := context.WithTimeoutCause(ctx, beginTimeout,
		errors.New("the store has not answered"))
	defer cancel()
	return r.store.Raise(ctx, c)
}

// mine reports whether the job is assigned to this member, and has not ended.
func (t *try) mine(s job.Status) bool {
	return s.Worker == t.worker && s.Attempt == t.attempt &&
		(s.State == job.Assigned || s.State == job.Running)
}

// published reports whether the history of a job shows that this try, under its token, has
// published its end.
func (t *try) published(s job.Status, token fence.Token) bool {
	return slices.ContainsFunc(s.History, func(a job.Attempt) bool {
		return a.Attempt == t.attempt && a.Token == token && a.Outcome != job.OutcomeLost
	})
}

// step makes a step of the job from a status that was read before, under the term, if the job is
// still this try's. It returns the status that it has made.
func (t *try) step(
	ctx context.Context, term *fence.Term, from records.Record,
	next func(context.Context, records.Record) ([]documents.Write, error),
) (records.Record, error) {
	return t.runner.Queue.store.Step(ctx, t.id, from,
		func(r records.Record) ([]documents.Write, error) {
			if !t.mine(r.Status) {
				return nil, errNotMine
			}
			return next(ctx, r)
		}, term.Claim())
}

// work runs the job in a term, and publishes what it has brought. first was read before the term
// began, so a change of it since then is a conflict.
func (t *try) work(
	ctx context.Context, term *fence.Term, first records.Record, spec job.Spec,
) error {
	q := t.runner.Queue.store
	if err := t.runner.begin(t); err != nil {
		return err
	}
	run := &Run{ID: t.id, Spec: spec, Attempt: t.attempt, Term: term}
	run.Spec.Resource = first.Resource // the one it was given, if it names none
	t.runs(run)                        // before anybody can see that it runs
	defer t.runs(nil)
	started, err := t.step(ctx, term, first,
		func(_ context.Context, r records.Record) ([]documents.Write, error) {
			run.Failure = r.Failures
			return q.Changes.Start(r, term.Token(), q.Now()), nil
		})
	if err != nil {
		return err
	}
	run.RoundToken = started.RoundToken
	o, why := t.call(ctx, run)
	if errors.Is(why, ErrTakenBack) || errors.Is(why, fence.ErrLost) {
		return why // whatever it has brought, it is not published
	}
	publishing, cancel := context.WithTimeout(term.Context(), publishTimeout)
	defer cancel()
	ended, err := t.step(publishing, term, started,
		func(ctx context.Context, r records.Record) ([]documents.Write, error) {
			switch {
			case o.Err != nil && errors.Is(why, ErrCancelled):
				return q.Cancelled(ctx, r)
			case o.Err != nil && errors.Is(why, ErrStopping):
				return q.Returned(r), nil
			}
			return q.Changes.Finish(r, spec, o, q.Now()), nil
		})
	if errors.Is(err, errNotMine) && ended.AnswerLost && t.published(ended.Status, term.Token()) {
		err = nil
	}
	t.ended = err == nil
	return err
}

// call calls the handler, and returns why its context has ended, nil if it has not.
func (t *try) call(ctx context.Context, run *Run) (o records.End, why error) {
	h := t.runner.Handlers[run.Spec.Kind]
	if h == nil { // it was assigned before this worker had another program
		return records.End{Err: fmt.Errorf("this worker knows no job of kind %q", run.Spec.Kind)}, nil
	}
	if limit := time.Duration(run.Spec.Timeout); limit > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, limit, ErrTimeout)
		defer cancel()
		ctx = limited
	}
	began := time.Now()
	o = call(ctx, h, run)
	if why = context.Cause(ctx); o.Err != nil && errors.Is(why, ErrTimeout) {
		o.Err = late(o.Err, time.Since(began))
	}
	return o, why
}

// giveBack gives the job back. why is nil if the worker stops.
func (t *try) giveBack(why error) bool {
	q := t.runner.Queue.store
	return t.settle("given back",
		func(_ context.Context, r records.Record) ([]documents.Write, error) {
			return q.Changes.GiveBack(r, why, q.Now()), nil
		})
}

// settle makes a step of the job without a term, if it is still this try's: no handler of this
// worker runs it any more. It returns false if it may be tried again.
func (t *try) settle(
	what string, next func(context.Context, records.Record) ([]documents.Write, error),
) bool {
	ctx, cancel := context.WithTimeout(context.Background(), records.AnnounceTimeout)
	defer cancel()
	_, err := t.runner.Queue.store.Step(ctx, t.id, records.Record{},
		func(r records.Record) ([]documents.Write, error) {
			if !t.mine(r.Status) {
				return nil, nil
			}
			return next(ctx, r)
		})
	if err != nil && !errors.Is(err, job.ErrNotFound) {
		t.runner.Log.Warn("a job could not be "+what+"; it is taken back when this worker has left",
			"job", string(t.id), "error", err)
		return !records.Again(err) && !errors.Is(err, context.DeadlineExceeded)
	}
	return true
}

// sayIfLost says that a handler was called whose result counts for nothing.
func (t *try) sayIfLost() {
	why := context.Cause(t.ctx)
	if !t.begun || t.ended || errors.Is(why, ErrStopping) || errors.Is(why, ErrCancelled) {
		return
	}
	t.runner.Log.Warn("a job is not this worker's any more; its result is discarded",
		"job", string(t.id), "attempt", t.attempt)
}

// late is the error of a try that has run into its timeout.
func late(err error, after time.Duration) error {
	if err == ErrTimeout { // the handler says no more
		return fmt.Errorf("%w: %s", ErrTimeout, after.Round(time.Millisecond))
	}
	return fmt.Errorf("%w (%s): %w", ErrTimeout, after.Round(time.Millisecond), err)
}

// runs says which run of the job's handler lasts; nil for none.
func (t *try) runs(run *Run) {
	t.runner.mu.Lock()
	defer t.runner.mu.Unlock()
	t.running = run
}
