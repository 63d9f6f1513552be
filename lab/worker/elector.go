package worker

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
)

// recordingElector is an elector that records the worker's elections, which come one after the
// other.
type recordingElector struct {
	fence.Elector
	w    *worker
	term *fence.Term // the present or last one
	// leaving is called after a term was given up, before that is recorded; between is called
	// before the worker stands again. Either may be nil.
	leaving func(last *fence.Term)
	between func(ctx context.Context, last *fence.Term)
}

// Campaign implements fence.Elector.
func (s *recordingElector) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	if last := s.leave(); last != nil && s.between != nil {
		s.between(ctx, last)
	}
	s.w.term(history.Standing, fence.Claim{}, "")
	term, err := s.Elector.Campaign(ctx, r, holder)
	if err != nil {
		return nil, err
	}
	if s.w.first == 0 {
		s.w.first = term.Token()
	}
	s.w.reached.Store(true)
	s.w.term(history.Won, term.Claim(), "")
	s.term = term
	s.w.watches.Go(func() { s.w.watch(term) })
	return term, nil
}

// leave records that the last term was given up, and returns it.
func (s *recordingElector) leave() *fence.Term {
	last := s.term
	if last == nil {
		return nil
	}
	s.w.watches.Wait() // records a loss first; Lead has resigned the term by now
	if s.leaving != nil {
		s.leaving(last)
	}
	s.w.term(history.Left, last.Claim(), "")
	s.term = nil
	return last
}

// watch records the loss of a term as soon as the process can know it. A resigned term was not
// lost.
func (w *worker) watch(term *fence.Term) {
	<-term.Context().Done()
	if cause := context.Cause(term.Context()); !errors.Is(cause, fence.ErrResigned) {
		w.term(history.Lost, term.Claim(), lost(term))
	}
}

// deposesNobody is the part of an elector that a worker does not use.
type deposesNobody struct{}

// Depose implements fence.Elector.
func (deposesNobody) Depose(context.Context, fence.Resource, fence.Token) (bool, error) {
	return false, errors.New("workers depose nobody")
}
