package servers

import (
	"errors"
	"runtime"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

func TestFreePortsAreDistinct(t *testing.T) {
	seen := map[int]bool{}
	for range 20 {
		got, err := freePorts(9)
		must.Succeed(t, err)
		for _, port := range got {
			if seen[port] {
				t.Fatal("handed out twice:", port)
			}
			seen[port] = true
		}
	}
}

func TestThePortOfAStoppedServerIsKeptFromOtherProcesses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("ports are kept on Linux only")
	}
	got, err := freePorts(1)
	must.Succeed(t, err)
	if !bindable(got[0]) {
		t.Fatal("somebody listens on it")
	}
	if l, err := reserve(got[0]); err == nil { // the name is valid for the whole machine
		t.Error("it could be had again")
		_ = l.Close()
	}
}

func TestOnlyATakenPortLeadsToAnotherTry(t *testing.T) {
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
