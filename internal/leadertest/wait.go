package leadertest

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen. It is long because the machine may be
// busy.
const Patience = 30 * time.Second

// Eventually looks until it is so.
func Eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(Patience); !so(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not so after %s: %s", Patience, what)
		}
	}
}

// Await waits until the channel is closed.
func Await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(Patience):
		t.Fatalf("not so after %s: %s", Patience, what)
	}
}

// Exits waits for an exit code and checks it.
func Exits(t *testing.T, code <-chan int, want int) {
	t.Helper()
	select {
	case got := <-code:
		if got != want {
			t.Fatalf("exit code %d, want %d", got, want)
		}
	case <-time.After(Patience):
		t.Fatalf("it does not end")
	}
}
