package leadertest

import (
	"testing"
	"time"
)

// Patience is how long a test waits for an event. It is long because the machine may be busy.
const Patience = 2 * time.Minute

// Eventually polls until the condition holds.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(Patience); !holds(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("did not happen in %s: %s", Patience, what)
		}
	}
}

// Await waits until the channel is closed.
func Await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(Patience):
		t.Fatalf("did not happen in %s: %s", Patience, what)
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
		t.Fatalf("it did not end in %s", Patience)
	}
}
