package leadertest

import (
	"slices"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/process"
)

// State returns a process's state letter of proc(5), or "" if there is no such process.
func State(pid int) string {
	p, _ := process.Find(pid)
	return p.State
}

// Alive reports whether the process exists and is not a zombie.
func Alive(pid int) bool { return !slices.Contains([]string{"", "Z", "X"}, State(pid)) }

// Halted reports whether the process is stopped. A shell whose child was stopped between vfork and
// exec waits for it in state D.
func Halted(pid int) bool {
	switch State(pid) {
	case "T":
		return true
	case "D":
		return slices.ContainsFunc(process.List(), func(p process.Process) bool {
			return p.Parent == pid && p.State == "T"
		})
	}
	return false
}

// MustBeGone fails the test if one of the processes still exists, and kills that process.
func MustBeGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if pid <= 0 {
			t.Errorf("%d is not a process id", pid)
		} else if Alive(pid) {
			t.Errorf("process %d still exists, in state %s", pid, State(pid))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
