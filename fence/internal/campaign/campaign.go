package campaign

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// Session is a session at a coordinator. It embeds a *Life.
type Session[E Candidate] interface {
	comparable

	// Candidate returns a candidate with a key that no other has. It sends nothing.
	Candidate(r fence.Resource, holder string) E

	// Beat makes a round trip that renews the session, and tells Life and each enrolled candidate
	// what it has found, with its start. It deletes what belongs to no candidate. If the answer is
	// that the session is over, Beat ends it.
	Beat(start time.Time) error

	// Close ends the session at the coordinator, if that answers soon. It is called once, after the
	// session is over.
	Close()

	life() *Life[E]
}

// Candidate is an entry in an election. It embeds a Standing.
type Candidate interface {
	elector.Backing

	// Enrol makes the entry and returns its token.
	Enrol(ctx context.Context) (fence.Token, error)

	// Await waits until the candidate leads. It returns the issuer as it was then, and the start of
	// the round trip that confirmed the session or the candidate last.
	Await(ctx context.Context) (issuer fence.Issuer, confirmed time.Time, err error)

	// Watch waits until ctx ends, and loses a candidate that it finds gone before the next beat does.
	// It may also return at once.
	Watch(ctx context.Context)

	// Leave gives the entry up. It does not wait: the next beat deletes the entry.
	Leave()

	standing() *Standing
}

// Campaigns runs the campaigns of one Coordinator.
type Campaigns[S Session[E], E Candidate] struct {
	*Frame
	open    func(context.Context) (S, error)
	current chan S // holds the current session, or the zero value
}

// New returns the campaigns of a Coordinator. It opens no session yet; open does.
func New[S Session[E], E Candidate](
	f *Frame, open func(context.Context) (S, error),
) *Campaigns[S, E] {
	c := &Campaigns[S, E]{Frame: f, open: open, current: make(chan S, 1)}
	var none S
	c.current <- none
	return c
}

// Campaign is fence.Elector's. It enters holder into the election of a resource and waits until it
// leads. While the coordinator does not answer, it keeps trying. If ctx ends then, the error has
// the last failure.
func (c *Campaigns[S, E]) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	if _, err := fence.ParseResource(string(r)); err != nil {
		return nil, err
	}
	if err := elector.CheckHolder(holder); err != nil {
		return nil, err
	}
	ctx, done, err := c.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var last error
	for failures := 0; ctx.Err() == nil; {
		term, enrolled, err := c.try(ctx, r, holder)
		switch {
		case err == nil:
			return term, nil
		case c.Refused(err):
			return nil, fmt.Errorf("campaign for %s: %w", r, err)
		case ctx.Err() != nil:
			continue // err is the end of ctx
		case enrolled:
			failures = 0
		}
		failures, last = failures+1, err
		wait := backoff.After(failures, backoff.Min, backoff.Max)
		c.Log.Warn("campaign starts again",
			"resource", r, "holder", holder, "error", err, "in", wait)
		backoff.Pause(ctx, wait)
	}
	if last == nil && c.Last != nil {
		last = c.Last()
	}
	if last != nil {
		return nil, fmt.Errorf("campaign for %s: %w (last failure: %w)",
			r, context.Cause(ctx), last)
	}
	return nil, fmt.Errorf("campaign for %s: %w", r, context.Cause(ctx))
}

// try is one candidate: it wins, or leaves.
func (c *Campaigns[S, E]) try(
	ctx context.Context, r fence.Resource, holder string,
) (_ *fence.Term, enrolled bool, err error) {
	s, err := c.Session(ctx)
	if err != nil {
		return nil, false, err
	}
	e := s.Candidate(r, holder)
	s.life().know(e)
	defer func() {
		if err != nil {
			e.Leave()
		}
	}()
	token, err := e.Enrol(ctx)
	if err != nil {
		return nil, false, err
	}
	e.standing().Enrolled(token)
	if cause := s.life().Ended(); cause != nil {
		e.standing().Lose(cause) // the session may have ended before it knew the candidate
	}
	issuer, confirmed, err := e.Await(ctx)
	if err != nil {
		return nil, true, err
	}
	term, err := e.standing().begin(e.standing().Claim(issuer), confirmed, s.life().Timeout, e)
	if err != nil {
		return nil, true, err
	}
	c.Go(func() { keepTerm(term, e) }) // closing still waits for this call
	return term, true, nil
}

// keepTerm watches over a term until it ends. A term that is lost at the coordinator leaves
// nothing. One that its holder has given up, or that a store has superseded, keeps its place until
// Release: the holder is still draining.
func keepTerm(term *fence.Term, e Candidate) {
	e.Watch(term.Context())
	<-term.Context().Done()
	cause := context.Cause(term.Context())
	if errors.Is(cause, fence.ErrExpired) || errors.Is(cause, fence.ErrDeposed) {
		e.Leave()
	}
}

// Session returns the current session, or opens one.
func (c *Campaigns[S, E]) Session(ctx context.Context) (s S, err error) {
	var none S
	select {
	case s = <-c.current:
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	defer func() { c.current <- s }()
	if s != none && s.life().Ended() == nil {
		return s, nil
	}
	fresh, err := c.open(ctx)
	if err != nil {
		return none, err
	}
	s = fresh
	c.Go(func() { c.keep(s) })
	return s, nil
}

// Current returns the session that was opened last, or the zero value.
func (c *Campaigns[S, E]) Current() S {
	s := <-c.current
	c.current <- s
	return s
}

// keep beats until the session is over, or the Coordinator is closed; then it ends the session at
// the coordinator.
func (c *Campaigns[S, E]) keep(s S) {
	defer s.Close()
	l := s.life()
	failures := 0
	for l.Ended() == nil {
		start := time.Now()
		err := s.Beat(start)
		again := start.Add(l.Timeout / 4)
		if err != nil {
			failures++
			again = start.Add(l.Timeout / 20)
		} else {
			failures = 0
		}
		c.settle(l, err, failures)
		nudge := (<-chan struct{})(l.nudge)
		if err != nil { // whoever hurries would hurry again at once
			nudge = nil
		}
		next := time.NewTimer(max(time.Until(again), l.Timeout/100))
		select {
		case <-next.C:
		case <-nudge:
		case <-l.over:
		case <-c.ctx.Done():
			l.End(fmt.Errorf("%w: %w", fence.ErrResigned, context.Cause(c.ctx)))
		}
		next.Stop()
	}
}

// settle acts on the result of a beat: it ends the session or suspends the terms after a failure,
// and wakes the calls that wait for a beat. It warns of the first failure in a row.
func (c *Campaigns[S, E]) settle(l *Life[E], err error, failures int) {
	stale := l.wake()
	switch {
	case err == nil, l.Ended() != nil:
	case stale >= l.Timeout:
		l.End(fmt.Errorf("%w: %s has not renewed the session for %s (last: %v)",
			fence.ErrExpired, c.Kind, l.Timeout, err))
	case c.ctx.Err() == nil:
		level := slog.LevelDebug
		if failures == 1 {
			level = slog.LevelWarn
		}
		c.Log.Log(c.ctx, level, "the session could not be renewed", "error", err)
		l.Suspend()
	}
}
