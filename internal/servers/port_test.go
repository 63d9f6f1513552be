package servers

import (
	"errors"
	"testing"
)

func TestFreePortsAreDistinct(t *testing.T) {
	seen := map[int]bool{}
	for range 20 {
		got, err := freePorts(9)
		must(t, err)
		for _, port := range got {
			if seen[port] {
				t.Fatal("handed out twice:", port)
			}
			seen[port] = true
		}
	}
}

func TestOnlyATakenPortIsTriedAgain(t *testing.T) {
	other, calls := errors.New("other"), 0
	err := startOnFreePorts(t.Context(), 1, func([]int) error { calls++; return other })
	if !errors.Is(err, other) || calls != 1 {
		t.Error(err, calls)
	}
	err = startOnFreePorts(t.Context(), 1, func([]int) error { calls++; return errPortTaken })
	if !errors.Is(err, errPortTaken) || calls != 1+portAttempts {
		t.Error(err, calls)
	}
}
