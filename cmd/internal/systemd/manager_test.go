//go:build unix

package systemd

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
)

// managed opens the socket of a service manager, and returns what reads its next message.
func managed(t *testing.T, address string) (next func() string) {
	t.Helper()
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	must.Succeed(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return func() string {
		t.Helper()
		b := make([]byte, 4<<10)
		_ = l.SetReadDeadline(time.Now().Add(30 * time.Second))
		n, err := l.Read(b)
		must.Succeed(t, err)
		return string(b[:n])
	}
}

func TestTheServiceManagerHearsEachMessageInItsForm(t *testing.T) {
	for _, address := range []string{
		filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@ringfence-test-%d", os.Getpid()),
	} {
		if strings.HasPrefix(address, "@") && runtime.GOOS != "linux" {
			continue
		}
		next := managed(t, address)
		t.Setenv("NOTIFY_SOCKET", address)
		m, err := Connect(os.Environ())
		must.Succeed(t, err)
		if _, set := os.LookupEnv("NOTIFY_SOCKET"); set {
			t.Error("a child would hear of the service manager")
		}
		m.Ready("serving\nREADY=0")
		m.Status("busy")
		m.Reloading()
		m.Alive()
		m.Stopping("bye", 1500*time.Millisecond)
		for _, want := range []string{
			"READY=1\nSTATUS=serving READY=0", "STATUS=busy", `RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*`,
			"WATCHDOG=1", "STOPPING=1\nSTATUS=bye\nEXTEND_TIMEOUT_USEC=1500000",
		} {
			if got := next(); !regexp.MustCompile(`^(?:` + want + `)$`).MatchString(got) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		m.Close()
		m.Close()
		m.Ready("nobody hears this")
	}
}

func TestWithoutAServiceManagerMessagesGoNowhere(t *testing.T) {
	for _, env := range [][]string{nil, {"NOTIFY_SOCKET=" + filepath.Join(t.TempDir(), "none")},
		{"NOTIFY_SOCKET=vsock:2:1"}} {
		m, err := Connect(env)
		if (err == nil) != (env == nil) {
			t.Errorf("%v: %v", env, err)
		}
		m.Ready("x")
		m.Close()
	}
}

func TestAWatchdogOfThisProcessCounts(t *testing.T) {
	for env, want := range map[string]time.Duration{
		"":                                  0,
		"WATCHDOG_USEC=1500":                1500 * time.Microsecond,
		"WATCHDOG_USEC=0":                   0,
		"WATCHDOG_USEC=1500 WATCHDOG_PID=1": 0,
		"WATCHDOG_USEC=x":                   0,
		fmt.Sprintf("WATCHDOG_USEC=1000000 WATCHDOG_PID=%d", os.Getpid()): time.Second,
	} {
		m, err := Connect(strings.Fields(env))
		must.Succeed(t, err)
		if got := m.Watchdog(); got != want {
			t.Errorf("%s: %s", env, got)
		}
	}
}
