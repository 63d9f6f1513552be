package unixsocket

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
)

// stale leaves a socket behind, as a killed process does.
func stale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must.Succeed(t, err)
	l.SetUnlinkOnClose(false)
	_ = l.Close()
}

func TestOnlyAStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale(t, path)
	l, err := Listen(t.Context(), path, 0o640)
	must.Succeed(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeSocket|0o640 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := Listen(t.Context(), path, 0o600); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a live one: %v", err)
	}
	if c, err := net.Dial("unix", path); err != nil {
		t.Error(err)
	} else {
		_ = c.Close()
	}
	_ = l.Close()
	must.Succeed(t, os.WriteFile(path, []byte("precious"), 0o600))
	if _, err := Listen(t.Context(), path, 0o600); err == nil || !strings.Contains(err.Error(), "is "+
		"not a socket") {
		t.Errorf("a file: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestOneOfManyTakesAStaleSocket(t *testing.T) {
	const many = 16
	path := filepath.Join(t.TempDir(), "s")
	for range 100 {
		stale(t, path)
		var all sync.WaitGroup
		won, begin := make(chan net.Listener, many), make(chan struct{})
		for range many {
			all.Go(func() {
				<-begin
				l, err := Listen(t.Context(), path, 0o600)
				switch {
				case err == nil:
					won <- l
				case !errors.Is(err, syscall.EADDRINUSE):
					t.Error(err)
				}
			})
		}
		close(begin)
		all.Wait()
		close(won)
		if len(won) != 1 {
			t.Fatalf("%d listen", len(won))
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("the winner cannot be reached: %v", err)
		}
		_, _ = c.Close(), (<-won).Close()
	}
}
