package systemd

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/settings"
)

// Manager is the service manager, as this process tells it about itself. Its methods may be called
// from any goroutine, also if there is no service manager; a message that cannot be sent is lost.
type Manager struct {
	environ []string

	mu   sync.Mutex
	conn net.Conn // nil if there is no service manager
}

// sendTime bounds how long one message may take.
const sendTime = time.Second

// names are the variables by which the service manager speaks to one process.
var names = []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}

// Without returns the environment for a child, which must not speak for this process.
func Without(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(names, name)
	})
}

// Connect returns the service manager that environ, as os.Environ returns it, names. With an error
// it returns one to which nothing is sent. It removes the address from the process's own
// environment, so a child that inherits that does not speak for this process.
func Connect(environ []string) (*Manager, error) {
	m := &Manager{environ: environ}
	address := settings.Lookup(environ, "NOTIFY_SOCKET")
	for _, name := range names {
		_ = os.Unsetenv(name)
	}
	if address == "" {
		return m, nil
	}
	if !strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "@") {
		return m, fmt.Errorf("NOTIFY_SOCKET is %q, neither a path nor an abstract socket", address)
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		return m, fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	m.conn = c
	return m, nil
}

// Ready says that the process serves, after a start or a reload. status is for people.
func (m *Manager) Ready(status string) { m.send("READY=1", "STATUS="+status) }

// Status says what the process does, for people.
func (m *Manager) Status(status string) { m.send("STATUS=" + status) }

// Reloading says that the process has begun to read its settings again. Ready ends it.
func (m *Manager) Reloading() {
	m.send("RELOADING=1", "MONOTONIC_USEC="+strconv.FormatInt(monotonic().Microseconds(), 10))
}

// Stopping says that the process has begun to stop, which may take that long, whatever the unit
// says.
func (m *Manager) Stopping(status string, within time.Duration) {
	m.send("STOPPING=1", "STATUS="+status,
		"EXTEND_TIMEOUT_USEC="+strconv.FormatInt(within.Microseconds(), 10))
}

// Alive says that the process works (WatchdogSec= of the unit).
func (m *Manager) Alive() { m.send("WATCHDOG=1") }

// Watchdog returns within which time the service manager wants to hear Alive, again and again; 0 if
// it does not.
func (m *Manager) Watchdog() time.Duration {
	pid := settings.Lookup(m.environ, "WATCHDOG_PID")
	if pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	n, err := strconv.ParseInt(settings.Lookup(m.environ, "WATCHDOG_USEC"), 10, 64)
	if err != nil || n <= 0 {
		return 0
	}
	return time.Duration(n) * time.Microsecond
}

// beats is how many times a process proves itself in the time in which it has to once.
const beats = 3

// Beat says Alive each time that prove returns nil, as often as the service manager wants to hear
// it, until ctx ends. prove gets that time. failed gets its errors, and may be nil if it has none.
func (m *Manager) Beat(ctx context.Context, prove func(context.Context) error, failed func(error)) {
	within := m.Watchdog()
	if within == 0 {
		return
	}
	tick := time.NewTicker(within / beats)
	defer tick.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, within)
		err := prove(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			m.Alive()
		} else {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Close ends the connection. Later messages go nowhere.
func (m *Manager) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn != nil {
		_ = m.conn.Close()
		m.conn = nil
	}
}

func (m *Manager) send(lines ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.conn == nil {
		return
	}
	_ = m.conn.SetWriteDeadline(time.Now().Add(sendTime))
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line, "\n", " ")
	}
	_, _ = m.conn.Write([]byte(strings.Join(lines, "\n")))
}
