package main

import (
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/settings"
	"github.com/ringfence/ringfence/internal/test/elections"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// counting is a task that counts in its state and waits in the middle, once.
const counting = `
state: {n: 0}
steps:
  - {name: one, run: 'sed s/0/1/ <"$RINGFENCE_STATE" >new; mv new "$RINGFENCE_STATE"'}
  - {name: wait, run: 'echo waits; while [ ! -e go ]; do sleep 0.02; done'}
  - {name: two, run: 'sed s/1/2/ <"$RINGFENCE_STATE" >new; mv new "$RINGFENCE_STATE"'}
`

// taskIsTakenOver kills the leader of a task in the middle; another one finishes it.
func (s *taskStage) taskIsTakenOver(resource string) {
	s.t.Helper()
	name := strings.ToLower(filepath.Base(s.t.Name()))
	file := s.write("t.yaml", "task: "+name+"\nresource: "+resource+counting)
	first := s.start("task", file)
	first.out.Await(s.t, "waits")
	second := s.start("task", file)
	first.kill()
	second.out.Await(s.t, "waits")
	s.write("go", "")
	second.exits(cli.Done)
	if cp := s.show(name); cp.Status != checkpoint.Done || string(cp.State) != `{"n":2}` ||
		cp.Version != 3 {
		s.t.Errorf("got %+v, state %s", cp, cp.State)
	}
	if list, _ := s.call(cli.Done, "task", "list"); !strings.Contains(list, name) ||
		!strings.Contains(list, "all 3") {
		s.t.Errorf("list says:\n%s", list)
	}
	if out, _ := s.call(cli.Done, "task", "restart", file); !strings.Contains(out, "run 2") {
		s.t.Errorf("restart says %q", out)
	}
	third := s.start("task", file)
	third.exits(cli.Done)
	if cp := s.show(file); cp.Run != 2 || string(cp.State) != `{"n":2}` {
		s.t.Errorf("got %+v, state %s", cp, cp.State)
	}
}

// withoutStores returns a stage whose journal is at LEADER_COORDINATOR.
func withoutStores(t *testing.T, program string, timeout time.Duration) *taskStage {
	return &taskStage{
		site: newSite(t, program, serverstest.SharedZooKeeper(t), timeout), dir: t.TempDir(),
	}
}

// testTaskInCoordinator has one setting: LEADER_COORDINATOR.
func testTaskInCoordinator(t *testing.T, program string) {
	inEveryCoordinator(t, program, func(s *taskStage) { s.taskIsTakenOver("counting") })
}

// inEveryCoordinator runs a test of tasks whose checkpoints are in each coordinator.
func inEveryCoordinator(t *testing.T, program string, test func(*taskStage)) {
	for name, coordinator := range elections.Coordinators {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := withoutStores(t, program, shortSession)
			s.set("LEADER_COORDINATOR", coordinator.Shared(t))
			test(s)
		})
	}
}

func testTaskInRedis(t *testing.T, program string) {
	server := serverstest.Redis(t, servers.RedisOptions{})
	s := withoutStores(t, program, shortSession)
	s.set("LEADER_STORES", server.URL()) // with a coordinator, the first raise installs everything
	s.taskIsTakenOver("counting")
}

// testTaskThroughGuard uses only the guard. The leader's connections carry its token; standbys
// cannot follow.
func testTaskThroughGuard(t *testing.T, program string) {
	s := newTaskStage(t, program, shortSession)
	direct := settings.Lookup(s.env, "LEADER_JOURNAL")
	s.guarded()
	s.set("LEADER_JOURNAL", "")
	s.SQL("create table effect (what text)")
	s.Grant()
	file := s.write("t.yaml",
		"task: t\nresource: counting"+counting+"  - {name: book, sql: \"insert into effect values "+
			"('x')\"}\n")
	_, log := s.call(cli.Error, "task", "show", file)
	if !strings.Contains(log, "set LEADER_JOURNAL to the database itself") {
		t.Errorf("show says %s", log)
	}
	first := s.start("task", file)
	first.out.Await(t, "waits")
	second := s.start("task", file)
	second.log.Await(t, "behind a guard")
	first.signal(syscall.SIGSTOP) // for longer than its session
	second.out.Await(t, "waits")
	s.write("go", "")
	second.exits(cli.Done)
	first.signal(syscall.SIGCONT)
	first.exits(cli.Done) // the task is done
	s.set("LEADER_JOURNAL", direct)
	if cp := s.show(file); cp.Status != checkpoint.Done || cp.Version != 4 {
		t.Errorf("got %+v", cp)
	}
	if n := s.Query("select count(*)::text from effect"); n != "1" {
		t.Errorf("%s rows", n)
	}
}

// testTaskOnATerminal checks that the bar is below the lines of the log and of commands.
func testTaskOnATerminal(t *testing.T, program string) {
	keyboard, tty := openTerminal(t)
	s := withoutStores(t, program, 20*time.Second)
	s.set("TERM", "xterm")
	file := s.write("t.yaml",
		"task: shown\nresource: shown\nsteps:\n  - {name: one, run: 'echo line of one'}\n  - {name: "+
			"two, run: 'printf half; while [ ! -e go ]; do sleep 0.02; done; echo \" a line\"'}\n")
	l := s.prepare("task", file)
	l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr = tty, tty, tty
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	l.begin()
	_ = tty.Close()
	shown := leadertest.NewScreen()
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(shown, keyboard) }()
	shown.Await(t, "line of one\r\n")
	shown.Await(t, "half")
	s.write("go", "")
	l.exits(cli.Done)
	<-read
	text := shown.String()
	for _, want := range []string{
		"shown  waits to lead", "] 1/2  two  round 1/1  run 1", "\r\x1b[Kline of one\r\n",
		"half a line\r\n", "] 2/2  done  round 1/1  run 1", "took over the task",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%q", want, text)
		}
	}
	if strings.Contains(text, `"level"`) || strings.Contains(text, "step begins") {
		t.Errorf("the log is not in text form:\n%q", text)
	}
}
