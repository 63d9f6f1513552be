package fencetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// busy is how long anything may take on a busy machine, except a session timeout.
const busy = 2 * time.Minute

var resources atomic.Int64

// stage is one test's election: a resource of its own, and a client that only observes.
type stage struct {
	testing.TB
	Fixture
	ctx      context.Context
	resource fence.Resource
	observer elector.Coordinator
	patience time.Duration // how long the test waits for anything but a session timeout
}

func newStage(t testing.TB, f Fixture) *stage {
	t.Helper()
	s := &stage{TB: t, Fixture: f, patience: busy}
	if f.patience > 0 {
		s.patience = f.patience
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*s.patience)
	t.Cleanup(cancel)
	s.ctx = ctx
	s.resource = s.anotherResource()
	s.observer = s.open()
	return s
}

// anotherResource returns a name that no other test uses, not even in an earlier process. It is as
// long as names may be.
func (s *stage) anotherResource() fence.Resource {
	return fence.Resource(fmt.Sprintf("t%019d_%027d", time.Now().UnixNano(), resources.Add(1)))
}

// open makes a client and closes it at the end of the test.
func (s *stage) open() elector.Coordinator {
	s.Helper()
	c := s.Open(s)
	s.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.Errorf("close the coordinator client: %v", err)
		}
	})
	return c
}

// run is a campaign in progress.
type run struct {
	s      *stage
	client elector.Coordinator
	holder string
	cancel context.CancelCauseFunc
	won    chan *fence.Term // closed when Campaign has returned
	err    error            // read it after won is closed
}

// enrol starts a campaign and returns once its candidate is listed.
func (s *stage) enrol(c elector.Coordinator, holder string) *run {
	s.Helper()
	r := s.campaign(c, s.resource, holder)
	s.eventually(holder+" is enrolled", func() bool { return s.position(holder) >= 0 })
	return r
}

// campaign starts a campaign and returns at once.
func (s *stage) campaign(c elector.Coordinator, resource fence.Resource, holder string) *run {
	ctx, cancel := context.WithCancelCause(s.ctx)
	r := &run{s: s, client: c, holder: holder, cancel: cancel, won: make(chan *fence.Term, 1)}
	go func() {
		defer close(r.won)
		term, err := c.Campaign(ctx, resource, holder)
		if r.err = err; err == nil {
			r.won <- term
		}
	}()
	s.Cleanup(func() {
		cancel(errors.New("the test is over"))
		for range r.won { // until Campaign has returned
		}
	})
	return r
}

// lead campaigns until the term is won.
func (s *stage) lead(c elector.Coordinator, holder string) *fence.Term {
	s.Helper()
	return s.campaign(c, s.resource, holder).term()
}

// term waits for victory.
func (r *run) term() *fence.Term {
	r.s.Helper()
	select {
	case term, ok := <-r.won:
		if !ok {
			r.s.Fatalf("campaign of %s: %v", r.holder, r.err)
		}
		return term
	case <-time.After(r.s.patience):
		r.s.Fatalf("%s does not lead after %v; candidates: %+v", r.holder, r.s.patience, r.s.queue())
	}
	return nil
}

// waits fails the test if the campaign has been won.
func (r *run) waits(why string) {
	r.s.Helper()
	select {
	case term, ok := <-r.won:
		if ok {
			r.s.Fatalf("%s was given a term (%v) %s", r.holder, term.Claim(), why)
		}
		r.s.Fatalf("campaign of %s ended %s: %v", r.holder, why, r.err)
	default:
	}
}

func (s *stage) queue() (queue []elector.Candidate) {
	s.Helper()
	s.ask("who is enrolled", func() (err error) {
		queue, err = s.observer.Candidates(s.ctx, s.resource)
		return err
	})
	return queue
}

// ask asks again while the coordinator does not answer, as on a busy machine.
func (s *stage) ask(what string, question func() error) {
	s.Helper()
	s.eventually("it says "+what, func() bool {
		err := question()
		if err != nil && !errors.Is(err, fence.ErrNotDone) {
			s.Fatalf("ask %s: %v", what, err)
		}
		return err == nil
	})
}

// position returns the holder's position in the queue, or -1.
func (s *stage) position(holder string) int {
	s.Helper()
	return slices.IndexFunc(s.queue(), func(c elector.Candidate) bool { return c.Holder == holder })
}

// token returns the token under which the holder is enrolled, or 0.
func (s *stage) token(holder string) fence.Token {
	s.Helper()
	for _, c := range s.queue() {
		if c.Holder == holder {
			return c.Token
		}
	}
	return 0
}

// holders lists the queue by name.
func (s *stage) holders() []string {
	s.Helper()
	names := []string{}
	for _, c := range s.queue() {
		names = append(names, c.Holder)
	}
	return names
}

func (s *stage) wantQueue(holders ...string) {
	s.Helper()
	var last []string
	defer func() {
		if s.Failed() {
			s.Logf("the queue was last %q", last)
		}
	}()
	s.eventually(fmt.Sprintf("the queue is %q", holders), func() bool {
		last = s.holders()
		return slices.Equal(last, holders)
	})
}

// eventually polls until the condition holds.
func (s *stage) eventually(what string, holds func() bool) {
	s.Helper()
	s.within(s.patience, what, holds)
}

func (s *stage) within(limit time.Duration, what string, holds func() bool) {
	s.Helper()
	end := time.Now().Add(limit)
	for !holds() {
		if time.Now().After(end) {
			s.Fatalf("timed out after %v waiting until %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// ends waits until the term is lost, and checks why.
func (s *stage) ends(term *fence.Term, limit time.Duration, cause error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(term.Context(), limit)
	defer cancel()
	<-ctx.Done()
	if term.Context().Err() == nil {
		s.Fatalf("term %v is %v after %v; want it lost", term.Claim(), term.State(), limit)
	}
	if got := context.Cause(term.Context()); !errors.Is(got, cause) || !errors.Is(got, fence.ErrLost) {
		s.Errorf("term %v was lost with %v; want %v", term.Claim(), got, cause)
	}
}

// reaches waits until the term is in the state. A term that is lost reaches no other.
func (s *stage) reaches(term *fence.Term, want fence.State) {
	s.Helper()
	s.eventually(fmt.Sprintf("term %v is %v", term.Claim(), want), func() bool {
		return term.State() == want || term.State() == fence.Lost
	})
	if want != fence.Lost && term.State() == fence.Lost {
		s.Fatalf("term %v is lost (%v); want it %v", term.Claim(), context.Cause(term.Context()),
			want)
	}
}

// outlives waits until the present deadlines of these terms are past. A term that was not confirmed
// meanwhile is lost then.
func (s *stage) outlives(terms ...*fence.Term) {
	s.Helper()
	var last time.Time
	for _, term := range terms {
		if d := term.Deadline(); d.After(last) {
			last = d
		}
	}
	s.eventually("the first deadlines are past", func() bool { return time.Now().After(last) })
}

func (s *stage) resign(term *fence.Term) {
	s.Helper()
	if err := term.Resign(s.ctx); err != nil {
		s.Errorf("resign %v: %v", term.Claim(), err)
	}
}

// wantState checks the state. On a busy machine a late confirmation suspends an active term, so it
// waits for that confirmation.
func (s *stage) wantState(term *fence.Term, want fence.State) {
	s.Helper()
	if want == fence.Active {
		s.eventually(fmt.Sprintf("term %v is not suspended", term.Claim()), func() bool {
			return term.State() != fence.Suspended
		})
	}
	if got := term.State(); got != want {
		s.Errorf("term %v is %v (%v); want %v", term.Claim(), got, context.Cause(term.Context()), want)
	}
}

// A clause that needs a fault is skipped where the fixture cannot make it.
func (s *stage) cut(c elector.Coordinator)       { s.fault("Cut", s.Cut, c) }
func (s *stage) heal(c elector.Coordinator)      { s.fault("Heal", s.Heal, c) }
func (s *stage) drop(c elector.Coordinator)      { s.fault("Drop", s.Drop, c) }
func (s *stage) expire(c elector.Coordinator)    { s.fault("Expire", s.Expire, c) }
func (s *stage) loseReply(c elector.Coordinator) { s.fault("LoseReply", s.LoseReply, c) }

func (s *stage) fault(
	name string, make func(testing.TB, elector.Coordinator), c elector.Coordinator,
) {
	s.Helper()
	if make == nil {
		s.Skipf("the fixture has no %s", name)
	}
	make(s, c)
}

// delete deletes a candidate of the stage's election.
func (s *stage) delete(token fence.Token) {
	s.Helper()
	if s.Delete == nil {
		s.Skip("the fixture has no Delete")
	}
	s.Delete(s, s.resource, token)
}
