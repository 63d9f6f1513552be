package leadertest

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Screen collects output, and lets a test wait for a text in it.
type Screen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

// NewScreen returns an empty Screen.
func NewScreen() *Screen { return &Screen{changed: make(chan struct{})} }

// Write implements io.Writer.
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
	return s.text.Write(b)
}

// String returns the whole output.
func (s *Screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Await waits until the output contains the text.
func (s *Screen) Await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(Patience)
	for {
		s.mu.Lock()
		seen, changed := strings.Contains(s.text.String(), text), s.changed
		s.mu.Unlock()
		if seen {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("no %q in:\n%s", text, s)
		}
	}
}

// PID waits for a line "name=number" and returns the number.
func (s *Screen) PID(t *testing.T, name string) int {
	t.Helper()
	s.Await(t, name+"=")
	var pid int
	Eventually(t, "a whole line with "+name, func() bool {
		_, rest, _ := strings.Cut(s.String(), name+"=")
		line, _, whole := strings.Cut(rest, "\n")
		pid, _ = strconv.Atoi(line)
		return whole && pid > 0
	})
	return pid
}
