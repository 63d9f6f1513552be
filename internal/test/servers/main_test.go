package servers

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/leak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(0) // the tests of this package start servers
	}
	code := m.Run()
	if code == 0 { // a failed test may leave goroutines behind
		if err := leak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left by the tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// limited returns a context with a timeout for one test.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// closed closes the server after the test, and prints its log if the test failed.
func closed(t *testing.T, s interface {
	Close() error
	LogTail(int) string
}) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.LogTail(tailLines))
		}
		if err := s.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("never happened: ", what)
		}
	}
}

func allGone(all []member) bool {
	for _, m := range all {
		if m.exists() {
			return false
		}
	}
	return true
}

func gone(dir string) bool {
	_, err := os.Stat(dir)
	return os.IsNotExist(err)
}
