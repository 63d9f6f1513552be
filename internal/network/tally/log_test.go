package tally

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// logged returns a Log and what it has logged.
func logged(t *testing.T) (*Log, *bytes.Buffer) {
	var out bytes.Buffer
	l := NewLog(slog.New(slog.NewTextHandler(&out, nil)))
	t.Cleanup(l.Close)
	return l, &out
}

func TestACrowdOfWarningsIsOneLineAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := logged(t)
		for second := range 180 { // a health check
			l.Warn("connection ended", fmt.Errorf("read from 10.0.0.1:%d: EOF", 30000+second), "client",
				second)
			if second == 0 {
				time.Sleep(time.Second / 2) // no warning comes at the moment of a report
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 4 || !strings.Contains(lines[0], "client=0") ||
			!strings.Contains(lines[0], "count=1") ||
			!strings.Contains(lines[2], "count=60") {
			t.Errorf("logged\n%s", out)
		}
		l.Warn("connection ended", errors.New("something else"))
		if !strings.Contains(out.String(), "something else") {
			t.Error("another cause waits for the minute of the first one")
		}
	})
}

// A client may invent as many causes as it likes.
func TestTheKindsOfWarningsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := logged(t)
		for range 2 {
			for n := range 20 * MaxKinds {
				l.Warn("connection ended", errors.New(strings.Repeat("x", n)))
			}
		}
		if n := strings.Count(out.String(), "\n"); n > MaxKinds+1 {
			t.Errorf("%d lines in a minute", n)
		}
	})
}

func TestALoggerOfTheStandardLibraryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := logged(t)
		for n := range 1000 {
			fmt.Fprintf(l, "http: TLS handshake error from 127.0.0.1:%d: EOF\n", n)
		}
		l.Close()
		if n := strings.Count(out.String(), "\n"); n != 2 ||
			!strings.Contains(out.String(), "count=999") {
			t.Errorf("logged\n%s", out)
		}
	})
}
