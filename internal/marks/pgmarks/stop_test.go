package pgmarks

import (
	"strings"
	"syscall"
	"testing"
)

// stop pauses a process until the test ends.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
}

func contains(s, part string) bool { return strings.Contains(s, part) }
