// Package electiontest has helpers for tests that hold elections at a coordinator.
package electiontest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/must"
)

// patience is how long a helper waits for something that has to happen.
const patience = 60 * time.Second

// Win campaigns with a limit.
func Win(t testing.TB, c fence.Elector, r fence.Resource, holder string) *fence.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	term, err := c.Campaign(ctx, r, holder)
	must.Succeed(t, err)
	return term
}

// Stand starts a campaign that ends with the test, and waits until its candidate is listed.
func Stand(
	t testing.TB, c elector.Coordinator, r fence.Resource, holder string,
) (won <-chan *fence.Term) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	winner, done := make(chan *fence.Term, 1), make(chan struct{})
	go func() {
		defer close(done)
		if term, err := c.Campaign(ctx, r, holder); err == nil {
			winner <- term
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	Eventually(t, holder+" is listed", func() bool {
		queue, err := c.Candidates(t.Context(), r)
		for _, one := range queue {
			if one.Holder == holder {
				return true
			}
		}
		return err != nil
	})
	return winner
}

// Crowd starts n campaigns that end with the test, of holders 0, 1 and so on. It returns the terms
// that they win.
func Crowd(t testing.TB, c fence.Elector, r fence.Resource, n int) (won <-chan *fence.Term) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	winners := make(chan *fence.Term, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if term, err := c.Campaign(ctx, r, fmt.Sprint(i)); err == nil {
				winners <- term
			}
		})
	}
	t.Cleanup(func() { cancel(); all.Wait() })
	return winners
}

// Next waits for the winner.
func Next(t testing.TB, won <-chan *fence.Term) *fence.Term {
	t.Helper()
	select {
	case term := <-won:
		return term
	case <-time.After(patience):
		t.Fatal("nobody leads")
		return nil
	}
}

// Ends waits until a term is lost, and checks why.
func Ends(t testing.TB, term *fence.Term, cause error) {
	t.Helper()
	select {
	case <-term.Context().Done():
	case <-time.After(patience):
		t.Fatalf("%v is %v", term.Claim(), term.State())
	}
	if got := context.Cause(term.Context()); !errors.Is(got, cause) {
		t.Errorf("%v was lost with %v, not %v", term.Claim(), got, cause)
	}
}

// Queued waits until an election has this many candidates.
func Queued(t testing.TB, c elector.Coordinator, r fence.Resource, want int) []elector.Candidate {
	t.Helper()
	var last []elector.Candidate
	Eventually(t, fmt.Sprintf("%d candidates", want), func() bool {
		var err error
		last, err = c.Candidates(t.Context(), r)
		return err == nil && len(last) == want
	})
	return last
}

// Eventually waits until something is so.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to this: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // between two looks, not for an event
	}
}

// Woken records which candidates a notice has woken.
type Woken struct {
	mu sync.Mutex
	by map[string]int
}

// Add is called when a candidate was woken.
func (w *Woken) Add(_ fence.Resource, holder string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[string]int{}
	}
	w.by[holder]++
}

// drain returns who was woken since the last call.
func (w *Woken) drain() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	by := w.by
	w.by = nil
	return by
}

// OnlyNext has one leader of a queue after the other resign, until so many candidates were woken,
// and checks that nobody but the next one was. A candidate that had not begun to wait is not woken:
// it finds out that it leads.
func (w *Woken) OnlyNext(
	t testing.TB, leader *fence.Term, queue []elector.Candidate, won <-chan *fence.Term, wakes int,
) {
	t.Helper()
	for i := 1; wakes > 0; i++ {
		w.drain()
		must.Succeed(t, leader.Resign(t.Context()))
		leader = Next(t, won)
		by := w.drain()
		if next := queue[i]; leader.Token() != next.Token || len(by) > 1 || len(by) != by[next.Holder] {
			t.Errorf("%v leads, %v was next, and these were woken: %v", leader.Claim(), next, by)
		}
		wakes -= len(by)
	}
}
