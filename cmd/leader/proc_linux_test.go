package main

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// state is a process's letter in proc(5), empty when there is none.
func state(pid int) string {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	p, _ := parseStat(string(line))
	return p.state
}

func alive(pid int) bool { return !slices.Contains([]string{"", "Z", "X"}, state(pid)) }

// halted tells a stopped process. A shell whose child was stopped between vfork and exec waits for that in state D.
func halted(pid int) bool {
	switch state(pid) {
	case "T":
		return true
	case "D":
		return slices.ContainsFunc(processes(), func(p process) bool { return p.parent == pid && p.state == "T" })
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

func TestStatOfAnyNameIsRead(t *testing.T) {
	got, ok := parseStat("42 (a) Z (b) c) T 7 9 9 0 -1")
	if want := (process{pid: 42, parent: 7, group: 9, state: "T"}); !ok || got != want {
		t.Errorf("got %+v, %t", got, ok)
	}
	for _, bad := range []string{"", "42", "42 (a) T", "x (a) T 1 1"} {
		if _, ok := parseStat(bad); ok {
			t.Errorf("%q was read", bad)
		}
	}
}
