package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// taskStage is a site with its own database for checkpoints and the data of a task. The role warden
// raises marks, and keeper runs the steps.
type taskStage struct {
	*site
	leadertest.Database
	dir string // of the task file
}

func newTaskStage(t *testing.T, program string, timeout time.Duration) *taskStage {
	t.Helper()
	s := &taskStage{
		site:     newSite(t, program, serverstest.SharedZooKeeper(t), timeout),
		Database: leadertest.NewDatabase(t), dir: t.TempDir(),
	}
	s.set("LEADER_STORES", s.URL("warden"))
	s.set("LEADER_JOURNAL", s.URL("keeper"))
	s.libpq(s.URL("keeper"))
	return s
}

// guarded puts a guard in front of the database, for psql and for the raise of marks.
func (s *taskStage) guarded() {
	s.t.Helper()
	program := filepath.Join(filepath.Dir(s.program), "guard")
	at := serverstest.FreeAddresses(s.t, 1)[0]
	g := &leader{
		leaderRun: &leaderRun{
			t: s.t, out: leadertest.NewScreen(), log: leadertest.NewScreen(), code: make(chan int, 1),
		}, cmd: exec.Command(program, "serve"),
	}
	g.cmd.Env = []string{
		"GUARD_POSTGRES_LISTEN=" + at, "GUARD_POSTGRES_UPSTREAM=" + s.URL("warden"),
		"GUARD_COORDINATOR=" + settings.Lookup(s.env, "LEADER_COORDINATOR"),
	}
	g.cmd.Stdout, g.cmd.Stderr = g.out, g.log
	g.begin()
	leadertest.Eventually(s.t, "the guard listens", func() bool {
		conn, err := net.Dial("tcp", at)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	through := fmt.Sprintf("postgres://keeper@%s/%s?sslmode=disable", at, s.Conn.Config().Database)
	s.set("LEADER_STORES", through)
	s.libpq(through)
}

// libpq sets psql's environment.
func (s *taskStage) libpq(url string) {
	s.t.Helper()
	cfg, err := pgx.ParseConfig(url)
	must.Succeed(s.t, err)
	s.set("PGHOST", cfg.Host)
	s.set("PGPORT", fmt.Sprint(cfg.Port))
	s.set("PGUSER", cfg.User)
	s.set("PGDATABASE", cfg.Database)
}

// example copies an example's directory, and loads its schema.
func (s *taskStage) example(name string) {
	s.t.Helper()
	from := filepath.Join("..", "..", "examples", name)
	must.Succeed(s.t, os.CopyFS(s.dir, os.DirFS(from)))
	schema, err := os.ReadFile(filepath.Join(from, "schema.sql"))
	must.Succeed(s.t, err)
	s.SQL(string(schema))
	s.Grant()
}

// write creates a file next to the task file.
func (s *taskStage) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	must.Succeed(s.t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

// show runs leader task show. The result is empty if the task has not begun.
func (s *taskStage) show(task string) (cp checkpoint.Checkpoint) {
	s.t.Helper()
	out, log, code := s.run("task", "show", task, "-o", "json")
	if code == cli.Error && strings.Contains(log, "never begun") {
		return cp
	}
	if err := json.Unmarshal([]byte(out), &cp); err != nil {
		s.t.Fatalf("%v in %q", err, out)
	}
	return cp
}

// call runs leader to its end and checks the exit code.
func (s *taskStage) call(want int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	stdout, stderr, got := s.run(args...)
	if got != want {
		s.t.Fatalf("leader %v: exit code %d, want %d\n%s%s", args, got, want, stdout, stderr)
	}
	return stdout, stderr
}

func (s *taskStage) run(args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), leadertest.Patience)
	defer cancel()
	var out, log strings.Builder
	cmd := exec.CommandContext(ctx, s.program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, &out, &log
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		s.t.Fatal(err)
	}
	return out.String(), log.String(), supervise.ExitCode(cmd.ProcessState)
}

// kill ends a leader as a power failure does.
func (l *leader) kill() {
	l.t.Helper()
	l.signal(syscall.SIGKILL)
	l.exits(128 + 9)
}
