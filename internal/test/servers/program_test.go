package servers_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
)

func TestAProgramIsStartedAgainWithItsOwnEnvironmentAndOutput(t *testing.T) {
	t.Setenv("OURS", "not for it")
	log := filepath.Join(t.TempDir(), "program.log")
	codes := make(chan int, 2)
	outputs := make(chan string, 2)
	starts := 0
	p, err := servers.NewProgram(servers.ProgramOptions{
		Name: "script", Log: log,
		Command: []string{
			"/bin/sh", "-c", `echo "start $N ours $OURS"; echo complaint >&2
				[ "$N" = 1 ] && exit 3; while :; do sleep 0.1; done`,
		},
		Env: func() []string { starts++; return []string{"N=" + string(rune('0'+starts))} },
		Stdout: func() (*os.File, error) {
			from, to, err := os.Pipe()
			go func() {
				defer from.Close()
				text, _ := io.ReadAll(from)
				outputs <- string(text)
			}()
			return to, err
		},
		Exited: func(s *os.ProcessState) {
			codes <- s.ExitCode()
			time.Sleep(50 * time.Millisecond) // meanwhile the test starts it again
		},
	})
	must.Succeed(t, err)
	defer p.Close()
	_ = p.Start(t.Context()) // it may have ended before it was looked at
	if code, out := <-codes, <-outputs; code != 3 || out != "start 1 ours \n" {
		t.Errorf("exit code %d, output %q", code, out)
	}
	must.Succeed(t, p.Start(t.Context()))
	must.Report(t, errors.Join(p.Pause(), p.Close()))
	if code, out := <-codes, <-outputs; code != -1 || !strings.HasPrefix(out, "start 2") && out != "" {
		t.Errorf("exit code %d, output %q", code, out)
	}
	if text, err := os.ReadFile(log); err != nil || !strings.HasPrefix(string(text), "complaint\n") {
		t.Errorf("log %q, %v", text, err)
	}
	if err := p.Start(t.Context()); !errors.Is(err, servers.ErrClosed) {
		t.Errorf("started after Close: %v", err)
	}
}

func TestAProgramThatIsNeverReadyIsKilled(t *testing.T) {
	p, err := servers.NewProgram(servers.ProgramOptions{
		Name: "sleeper", Command: []string{"/bin/sh", "-c", "sleep 600"},
		Ready: func(ctx context.Context) error { return errors.New("not yet") },
	})
	must.Succeed(t, err)
	defer p.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if err := p.Start(ctx); err == nil || !strings.Contains(err.Error(), "not yet") || p.PID() != 0 {
		t.Errorf("pid %d, %v", p.PID(), err)
	}
}
