package fencetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	flawsAtOnce   = 12 // they wait more than they work
	flawPatience  = 5 * time.Second
	flawElections = 12
)

// RunFlaws makes the coordinator wrong in many ways, one at a time, and checks that the contract
// finds each flaw: a contract that never fails proves nothing. The flaws are wrappers around the
// clients that the harness opens. Each one is shown to the one clause that finds it at once, so all
// of them take less time than Run.
func RunFlaws(t *testing.T, h Harness) {
	h.patience = h.SessionTimeout + flawPatience
	h.Elections = flawElections
	slots := make(chan struct{}, flawsAtOnce)
	var all sync.WaitGroup
	for i := range flaws {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(flaws[i].name, func(t *testing.T) { flaws[i].found(t, h) })
		})
	}
	all.Wait()
}

// found checks that the flaw's own clause fails, for the right reason.
func (fl *flaw) found(t *testing.T, h Harness) {
	c := clauseNamed(t, fl.clause)
	for _, needs := range []func(Harness) string{c.needs, fl.needs} {
		if needs != nil && needs(h) != "" {
			t.Skipf("the harness has no %s", needs(h))
		}
	}
	const tries = 3 // where the machine stalls, a clause may fail earlier, for another reason
	for try := 1; ; try++ {
		failure, failed := failureOf(t, c, fl.on(h))
		switch {
		case failed && strings.Contains(failure, fl.says):
			return
		case !failed:
			t.Fatalf("the clause %q does not find it", c.name)
		case try == tries:
			t.Fatalf("the clause %q should say %q, and says: %s", c.name, fl.says, failure)
		}
		t.Logf("try %d: %s", try, failure)
	}
}

func clauseNamed(t testing.TB, name string) check {
	t.Helper()
	all := slices.Concat(clauses, faultClauses)
	i := slices.IndexFunc(all, func(c check) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("there is no clause %q", name)
	}
	return all[i]
}

// failureOf runs a clause until its first failure, and returns that.
func failureOf(t testing.TB, c check, h Harness) (failure string, failed bool) {
	w := &witness{TB: t}
	w.ctx, w.stop = context.WithCancel(t.Context())
	defer w.stop()
	done := make(chan struct{})
	go func() { // a failure ends the goroutine of the clause, not ours
		defer close(done)
		defer w.end()
		c.run(w, h)
	}()
	<-done
	return w.failure()
}

// witness is a testing.TB that records the first failure, and ends each goroutine that reports one.
// So a clause must report nothing while it holds a lock.
type witness struct {
	testing.TB
	ctx  context.Context // ends at the first failure, for the clause's other goroutines
	stop context.CancelFunc

	mu     sync.Mutex
	ended  bool // what follows is clean-up
	failed bool
	first  string
}

func (w *witness) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

func (w *witness) failure() (first string, failed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first, w.failed
}

// Errorf implements testing.TB.
func (w *witness) Errorf(format string, args ...any) {
	w.mu.Lock()
	ended := w.ended
	if !ended && !w.failed {
		w.failed, w.first = true, fmt.Sprintf(format, args...)
	}
	w.mu.Unlock()
	if ended {
		w.TB.Errorf(format, args...)
		return
	}
	w.stop()
	runtime.Goexit()
}

// Context implements testing.TB.
func (w *witness) Context() context.Context { return w.ctx }

// Error implements testing.TB.
func (w *witness) Error(args ...any) { w.Errorf("%s", fmt.Sprint(args...)) }

// Fatal implements testing.TB.
func (w *witness) Fatal(args ...any) { w.Fatalf("%s", fmt.Sprint(args...)) }

// Fatalf implements testing.TB.
func (w *witness) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	w.TB.FailNow()
}

// Failed implements testing.TB.
func (w *witness) Failed() bool {
	_, failed := w.failure()
	return failed
}

// Logf implements testing.TB.
func (w *witness) Logf(string, ...any) {}

// Helper implements testing.TB.
func (w *witness) Helper() {}
