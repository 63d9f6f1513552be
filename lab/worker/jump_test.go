package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	terms "github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/history"
)

func TestAJumpMovesOnlyTheWallReading(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour, 1500 * time.Millisecond} {
		now := time.Now()
		moved := jumped(now, by)
		if d := moved.Sub(now); d != 0 {
			t.Errorf("%s: the monotonic reading has moved by %s", by, d)
		}
		if d := moved.Round(0).Sub(now.Round(0)); d != by {
			t.Errorf("the wall reading has moved by %s, not by %s", d, by)
		}
		if now.Sub(moved.Add(time.Second)) != -time.Second {
			t.Errorf("%s: arithmetic with it is wrong", by)
		}
	}
}

// leased is an elector whose one term is confirmed when the test wants.
type leased struct {
	fence.Elector
	keeper *terms.Keeper
}

type nothing struct{}

func (nothing) Acknowledge(context.Context) error { return nil }
func (nothing) Release(context.Context) error     { return nil }

// lease is longer than any test: the deadlines show which clock they use.
const lease = 5 * time.Second

func (l *leased) Campaign(context.Context, fence.Resource, string) (term *fence.Term, err error) {
	term, l.keeper = terms.NewTerm(fence.Claim{Resource: "orders", Token: 7}, time.Now(), lease,
		nothing{})
	return term, nil
}

// confirm confirms the term inside, and waits until the one outside is confirmed too, or lost.
func (l *leased) confirm(t *testing.T, outside *fence.Term) {
	t.Helper()
	before := outside.Deadline()
	l.keeper.Confirm(time.Now())
	end := time.Now().Add(awaitTime)
	for outside.State() != fence.Lost && outside.Deadline().Equal(before) {
		if time.Now().After(end) {
			t.Fatal("the term outside is not confirmed when the one inside is")
		}
		time.Sleep(time.Millisecond)
	}
}

// underJump runs a term whose clock jumps. Is it kept while it is confirmed, and would it be lost
// in time afterwards?
func underJump(t *testing.T, read func(time.Time) time.Time) (kept, lostInTime bool) {
	t.Helper()
	inner := &leased{}
	j := &jumpingElector{Elector: inner, timeout: lease, clock: read}
	term, err := j.Campaign(t.Context(), "orders", "test")
	must.Succeed(t, err)
	for range 3 {
		inner.confirm(t, term)
	}
	kept = term.State() == fence.Active
	// From here on only the clock may end it: the term inside is not reported as lost.
	deadline := term.Deadline()
	lostInTime = !deadline.After(time.Now().Add(2 * lease))
	_ = term.Resign(t.Context())
	j.following.Wait()
	return kept, lostInTime
}

func TestTheLeaseIsOnTheMonotonicClock(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			right, wrong := newSignals(), newSignals()
			right.resume()
			wrong.resume()
			if kept, inTime := underJump(t, right.clock(by)); !kept || !inTime {
				t.Errorf("kept while confirmed: %t, lost in time: %t", kept, inTime)
			}
			wall := wrong.clock(by)
			kept, inTime := underJump(t, func(at time.Time) time.Time { return wall(at).Round(0) })
			if kept && inTime {
				t.Error("it works without the monotonic reading too: the clock does not jump")
			}
		})
	}
}

// becomes waits for the term's next state.
func becomes(t *testing.T, term *fence.Term, want fence.State) {
	t.Helper()
	for {
		state, changed := term.Watch()
		if state == want {
			return
		}
		if state == fence.Lost {
			t.Fatalf("the term is lost, want %s", want)
		}
		<-changed
	}
}

func TestATermIsLostWhenTheTermInsideIsLost(t *testing.T) {
	inner := &leased{}
	j := &jumpingElector{Elector: inner, timeout: lease, clock: newSignals().clock(time.Hour)}
	term, err := j.Campaign(t.Context(), "orders", "test")
	must.Succeed(t, err)
	inner.keeper.Suspend()
	becomes(t, term, fence.Suspended)
	inner.keeper.Confirm(time.Now())
	becomes(t, term, fence.Active)
	inner.keeper.Lose(fence.ErrDeposed)
	<-term.Context().Done()
	if !errors.Is(context.Cause(term.Context()), fence.ErrDeposed) {
		t.Error(context.Cause(term.Context()))
	}
	j.following.Wait()
}

func TestALeaderKeepsItsTermWhenTheClockJumps(t *testing.T) {
	s := newStage(t)
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		c := s.config("worker-" + by.String())
		c.ClockJump, c.Session = by, 3*time.Second
		a := s.start(c)
		a.writes(5)
		a.w.signals.resume()
		time.Sleep(c.Session + c.Session/2) // longer than a term that is not confirmed
		a.writes(5)
		if len(a.terms(history.Lost)) > 0 || len(a.terms(history.Standing)) != 1 {
			t.Errorf("%s: %+v", by, a.events(func(e history.Event) bool {
				return e.Kind == history.Term
			}))
		}
		a.stop()
	}
}
