package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// logger returns a program that writes a line to its log at the start and after each file go-N, and
// makes a file wrote-N after each line.
func logger(t *testing.T) (s *System, dir string) {
	t.Helper()
	dir = t.TempDir()
	s = &System{
		build: system.Build{Dir: dir, Topology: scenario.Topology{LogPipes: true}},
		logs:  map[string]*logPipe{},
	}
	const script = `cd "$0"; n=0; while :; do echo "line $n" >&2; touch wrote-$n; n=$((n+1))
		until [ -e go-$n ]; do sleep 0.01; done; done`
	p, err := s.newProgram(servers.ProgramOptions{
		Name: "logger", Command: []string{"/bin/sh", "-c", script, dir},
	})
	must.Succeed(t, err)
	t.Cleanup(func() {
		must.Report(t, p.Close())
		must.Report(t, s.logs["logger"].Close())
		if left, _ := filepath.Glob(filepath.Join(dir, "*.pipe")); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	})
	must.Succeed(t, p.Start(limited(t)))
	return s, dir
}

func TestAProgramWaitsWhileItsLogIsClogged(t *testing.T) {
	s, dir := logger(t)
	logged := func(lines int) func() bool {
		var want strings.Builder
		for n := range lines {
			fmt.Fprintf(&want, "line %d\n", n)
		}
		return func() bool {
			got, err := os.ReadFile(filepath.Join(dir, "logger.log"))
			return err == nil && string(got) == want.String()
		}
	}
	eventually(t, "the first line is in the log", logged(1))
	for n := 1; n < 3; n++ {
		must.Succeed(t, s.Clog(limited(t), "logger"))
		must.Succeed(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("go-%d", n)), nil, 0o600))
		settle(limited(t))
		if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("wrote-%d", n))); err == nil {
			t.Errorf("line %d was written to a full pipe", n)
		}
		must.Succeed(t, s.Unclog(limited(t), "logger"))
		eventually(t, "the line is in the log", logged(n+1))
	}
	if err := s.Clog(limited(t), "logger"); err != nil { // Close can end it
		t.Fatal(err)
	}
}

func TestALogWithoutAPipeCannotBeClogged(t *testing.T) {
	err := new(System).Clog(limited(t), "guard-1")
	if err == nil || !strings.Contains(err.Error(), "guard-1") {
		t.Errorf("%v", err)
	}
}
