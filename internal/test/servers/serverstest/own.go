package serverstest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
)

const (
	startLimit = 3 * time.Minute
	logLines   = 40 // of a server's log when its test fails
)

// server is any server.
type server interface {
	Close() error
	LogTail(n int) string
}

// Program prepares a program for this test only, with a log of its own. The test starts it, and may
// leave it stopped.
func Program(t testing.TB, name string, env []string, command ...string) *servers.Program {
	t.Helper()
	p, err := servers.NewProgram(servers.ProgramOptions{
		Name: name, Command: command, Log: filepath.Join(t.TempDir(), name+".log"), Env: func() []string {
			return env
		},
	})
	must.Succeed(t, err)
	t.Cleanup(func() {
		logOnFailure(t, name, p)
		_ = p.Kill()
		_ = p.Close()
	})
	return p
}

// own starts a server, prints its log if the test fails, and closes it.
func own[S server](t testing.TB, name string, start func(context.Context) (S, error)) S {
	t.Helper()
	skipShort(t)
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	s, err := start(ctx)
	must.Succeed(t, err)
	t.Cleanup(func() {
		logOnFailure(t, name, s)
		if err := s.Close(); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
	})
	return s
}

// skipShort skips the test under go test -short, which starts no server.
func skipShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a server; left out with -short")
	}
}

func logOnFailure(t testing.TB, name string, s server) {
	t.Helper()
	if t.Failed() {
		t.Logf("end of the log of %s:\n%s", name, s.LogTail(logLines))
	}
}
