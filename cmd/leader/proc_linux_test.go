package main

import (
	"slices"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/supervise"
)

// state is a process's letter in proc(5), empty when there is none.
func state(pid int) string {
	p, _ := supervise.Find(pid)
	return p.State
}

func alive(pid int) bool { return !slices.Contains([]string{"", "Z", "X"}, state(pid)) }

// halted tells a stopped process. A shell whose child was stopped between vfork and exec waits for that in state D.
func halted(pid int) bool {
	switch state(pid) {
	case "T":
		return true
	case "D":
		return slices.ContainsFunc(supervise.Processes(), func(p supervise.Process) bool { return p.Parent == pid && p.State == "T" })
	}
	return false
}

func mustBeGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if pid <= 0 {
			t.Errorf("%d is no process id", pid)
		} else if alive(pid) {
			t.Errorf("process %d is still there in state %s", pid, state(pid))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
