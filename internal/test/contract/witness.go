package contract

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// FailureOf runs a check until its first failure, and returns that. Each goroutine that reports a
// failure ends there, so a check must report none while it holds a lock. The context of the check's
// testing.TB ends at the first failure, and later ones are left out. Without a failure, one during
// clean-up fails t. If the check skips itself, FailureOf skips t.
func FailureOf(t testing.TB, check func(testing.TB)) (failure string, failed bool) {
	w := &witness{TB: t}
	w.ctx, w.stop = context.WithCancel(t.Context())
	defer w.stop()
	done := make(chan struct{})
	go func() { // a failure ends the goroutine of the check, not ours
		defer close(done)
		defer w.end()
		check(w)
	}()
	<-done
	if w.skipped != "" {
		t.Skip(w.skipped)
	}
	return w.failure()
}

// witness is a testing.TB that records the first failure.
type witness struct {
	testing.TB
	ctx  context.Context // ends at the first failure, for the check's other goroutines
	stop context.CancelFunc

	mu      sync.Mutex
	ended   bool // what follows is clean-up
	failed  bool
	first   string
	skipped string // why; only the check's own goroutine skips
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
	ended, known := w.ended, w.failed
	if !ended && !known {
		w.failed, w.first = true, fmt.Sprintf(format, args...)
	}
	w.mu.Unlock()
	switch {
	case ended && known:
		return
	case ended:
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

// Skip implements testing.TB.
func (w *witness) Skip(args ...any) { w.skipped = fmt.Sprint(args...); runtime.Goexit() }

// Skipf implements testing.TB.
func (w *witness) Skipf(format string, args ...any) { w.Skip(fmt.Sprintf(format, args...)) }

// Failed implements testing.TB.
func (w *witness) Failed() bool {
	_, failed := w.failure()
	return failed
}

// Logf implements testing.TB.
func (w *witness) Logf(string, ...any) {}

// Helper implements testing.TB.
func (w *witness) Helper() {}
