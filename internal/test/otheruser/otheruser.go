//go:build linux

// Package otheruser connects as another user of this machine, for tests of who may connect.
package otheruser

import (
	"net"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Users of every system.
const (
	Daemon = 1
	Nobody = 65534
)

// Dial connects as another user: a thread of its own gets that user's identity, and ends. The
// test's end closes the connection. A test that is not root's is skipped.
func Dial(t *testing.T, user int, network, address string) net.Conn {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	type dialed struct {
		net.Conn
		error
	}
	done := make(chan dialed)
	go func() {
		runtime.LockOSThread() // and never unlocked
		if _, _, failed := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(user),
			^uintptr(0)); failed != 0 {
			done <- dialed{nil, failed}
			return
		}
		c, err := net.Dial(network, address)
		done <- dialed{c, err}
	}()
	d := <-done
	if d.error != nil {
		t.Fatal(d.error)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d.Conn
}
