package leadertest

import (
	"slices"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/supervise"
)

// State is a process's letter in proc(5), empty when there is none.
func State(pid int) string {
	p, _ := supervise.Find(pid)
	return p.State
}

// Alive tells a process that is there and no zombie.
func Alive(pid int) bool { return !slices.Contains([]string{"", "Z", "X"}, State(pid)) }

// Halted tells a stopped process. A shell whose child was stopped between vfork and exec waits for
// that in state D.
func Halted(pid int) bool {
	switch State(pid) {
	case "T":
		return true
	case "D":
		return slices.ContainsFunc(supervise.Processes(), func(p supervise.Process) bool { return p.Parent == pid && p.State == "T" })
	}
	return false
}

// MustBeGone fails the test where one of the processes is still there, and ends it.
func MustBeGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if pid <= 0 {
			t.Errorf("%d is no process id", pid)
		} else if Alive(pid) {
			t.Errorf("process %d is still there in state %s", pid, State(pid))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
