package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/environ"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// site runs the leader program with a real coordinator.
type site struct {
	t       *testing.T
	program string
	as      []string // what the program is started with, such as setpriv
	env     []string
}

// newSite holds elections in ZooKeeper.
func newSite(t *testing.T, program string, zk *servers.ZooKeeper, timeout time.Duration) *site {
	return siteAt(t, program, "zk://"+zk.Addr()+serverstest.Folder(t), timeout)
}

func siteAt(t *testing.T, program, coordinator string, timeout time.Duration) *site {
	return &site{t: t, program: program, env: []string{
		"PATH=" + os.Getenv("PATH"), "LEADER_COORDINATOR=" + coordinator,
		"LEADER_SESSION_TIMEOUT=" + timeout.String(),
	}}
}

func (s *site) set(name, value string) {
	s.env = environ.With(s.env, [][2]string{{name, value}})
}

// leader is one leader process.
type leader struct {
	*leaderRun
	cmd *exec.Cmd
}

// prepare returns a process for begin to start.
func (s *site) prepare(args ...string) *leader {
	l := &leader{
		leaderRun: &leaderRun{
			t: s.t, out: leadertest.NewScreen(), log: leadertest.NewScreen(), code: make(chan int, 1),
		},
	}
	argv := slices.Concat(s.as, []string{s.program}, args)
	l.cmd = exec.Command(argv[0], argv[1:]...)
	l.cmd.Env, l.cmd.Stdout, l.cmd.Stderr = s.env, l.out, l.log
	l.cmd.WaitDelay = 5 * time.Second // an orphan may keep the streams open
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return l
}

func (s *site) start(args ...string) *leader {
	s.t.Helper()
	l := s.prepare(args...)
	l.begin()
	return l
}

func (l *leader) begin() {
	l.t.Helper()
	must.Succeed(l.t, l.cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = l.cmd.Wait()
		l.code <- supervise.ExitCode(l.cmd.ProcessState)
	}()
	l.t.Cleanup(func() {
		_ = l.cmd.Process.Kill()
		<-ended
		if l.t.Failed() {
			l.t.Logf("%v\nstdout:\n%s\nstderr:\n%s", l.cmd.Args[1:], l.out, l.log)
		}
	})
}

// sleeper runs a command that prints its process id and sleeps.
func (s *site) sleeper() *leader {
	s.t.Helper()
	return s.start("run", "orders", "--", "/bin/sh", "-c", "echo pid=$$; exec sleep 1000")
}

func (l *leader) signal(sig syscall.Signal) {
	l.t.Helper()
	must.Succeed(l.t, l.cmd.Process.Signal(sig))
}

// electionStatus runs leader status.
func (s *site) electionStatus() electionStatus {
	s.t.Helper()
	cmd := exec.Command(s.program, "status", "orders", "-o", "json")
	cmd.Env = s.env
	out, err := cmd.Output()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		s.t.Fatal(err)
	}
	var now electionStatus
	if err := json.Unmarshal(out, &now); err != nil {
		s.t.Fatalf("%v in %q", err, out)
	}
	return now
}

// second starts a sleeper that is enrolled behind the first.
func (s *site) second() *leader {
	s.t.Helper()
	l := s.sleeper()
	leadertest.Eventually(s.t, "there are two candidates", func() bool {
		return len(s.electionStatus().Candidates) == 2
	})
	return l
}

func TestLeaderProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs, and needs servers")
	}
	program := filepath.Join(t.TempDir(), "leader")
	out, err := exec.Command("go", "build", "-o", filepath.Dir(program)+"/", ".",
		"../guard").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for name, test := range map[string]func(*testing.T, string){
		"KilledLeaderIsFollowedAndItsCommandDiesWithIt": onEveryCoordinator(
			shortSession, testKilled),
		"LeaderPausedPastTheTimeoutKillsItsCommandAndExits3": onEveryCoordinator(
			shortSession, testPaused),
		"ResignLetsTheNextOneLeadAtOnce": onEveryCoordinator(
			longerThanPatience, testResigned),
		"TheEndOfACommandLetsTheNextOneLeadAtOnce": onEveryCoordinator(
			longerThanPatience, testEnded),
		"CoordinatorPausedAndResumed":           testCoordinatorPaused,
		"CoordinatorGoneForGood":                testCoordinatorGone,
		"CoordinatorThatIsNotThere":             testNoCoordinator,
		"AgainInEveryCoordinator":               onEveryCoordinator(shortSession, leadsBackAndForth),
		"AgainAfterTheCoordinatorWasAway":       testAgainWithoutCoordinator,
		"CommandOnATerminal":                    testTerminal,
		"StoresAreRaisedBeforeTheCommand":       testStores,
		"ARaiseThatAStoreRefusesEndsTheRun":     testRefusedRaise,
		"FirstProcessOfAContainerReapsOrphans":  testFirstProcess,
		"WhatIsLeftOfACommandIsWaitedFor":       testLeft,
		"WhatIsLeftAtAStopIsNamed":              testLeftAtAStop,
		"ACommandOfAnotherUserIsNamed":          testCommandOfAnotherUser,
		"AJobWhoseProcessesAreThereHasNotEnded": testJobLeft,
		"AControlGroupEndsOtherUsersProcesses":  testControlGroup,
		"EachCommandEndsItsOwnOrphans":          testOrphans,
		"ExampleSettlement":                     testSettlement,
		"ExampleETL":                            testETL,
		"TaskInEveryCoordinator":                testTaskInCoordinator,
		"TaskInRedis":                           testTaskInRedis,
		"TaskThroughTheGuard":                   testTaskThroughGuard,
		"TaskOnATerminal":                       testTaskOnATerminal,
		"TaskJobInEveryCoordinator":             testTaskJobInCoordinator,
		"PausedTaskJobWritesNothing":            testPausedTaskJob,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, program)
		})
	}
}

func testKilled(t *testing.T, s *site) {
	first := s.sleeper()
	pid := first.pid("pid")
	second := s.second()
	start := time.Now()
	first.signal(syscall.SIGKILL)
	leadertest.Eventually(t, "the command dies with its leader", func() bool {
		return !leadertest.Alive(pid)
	})
	next := second.pid("pid")
	t.Logf("taken over after %s, with a session timeout of %s", time.Since(start), shortSession)
	if !leadertest.Alive(next) {
		t.Error("the second leader's command does not run")
	}
	if now := s.electionStatus(); len(now.Candidates) != 1 || !now.Leader.Ready {
		t.Errorf("got %+v", now)
	}
	second.signal(syscall.SIGTERM)
	second.exits(128 + 15)
	leadertest.MustBeGone(t, next)
}

func testPaused(t *testing.T, s *site) {
	first := s.sleeper()
	pid := first.pid("pid")
	second := s.second()
	first.signal(syscall.SIGSTOP)
	next := second.pid("pid")
	if !leadertest.Alive(pid) {
		t.Error("the command is already gone")
	}
	first.signal(syscall.SIGCONT)
	first.exits(runLost)
	leadertest.MustBeGone(t, pid)
	if !strings.Contains(first.log.String(), "expired") || !leadertest.Alive(next) {
		t.Errorf("log %s, the second command is alive: %t", first.log, leadertest.Alive(next))
	}
}

func testResigned(t *testing.T, s *site) {
	watch := s.start("watch", "orders")
	watch.out.Await(t, "nobody leads orders")
	for _, command := range []string{"status", "resign"} {
		s.start(command, "orders").exits(cli.Error) // nobody leads
	}
	first := s.sleeper()
	pid := first.pid("pid")
	watch.out.Await(t, "ready=yes")
	second := s.second()
	token := s.electionStatus().Leader.Token.String()
	status := s.start("status", "orders")
	status.exits(cli.Done)
	row := strings.Fields(strings.Split(status.out.String(), "\n")[1])
	if row[0] != "orders" || !slices.Equal(row[2:], []string{token, "yes", "2"}) {
		t.Errorf("status says %q", row)
	}
	resign := s.start("resign", "orders")
	resign.exits(cli.Done)
	resign.out.Await(t, "with token "+token+" was deposed")
	first.exits(runLost)
	leadertest.MustBeGone(t, pid)
	second.pid("pid")
	leadertest.Eventually(t, "watch has printed both", func() bool {
		return strings.Count(watch.out.String(), "ready=yes") == 2
	})
	lines := strings.Split(watch.out.String(), "\n")
	if !slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(line, "token="+token+" ")
	}) {
		t.Errorf("watch does not show token %s:\n%s", token, watch.out)
	}
	watch.signal(syscall.SIGINT)
	watch.exits(cli.Done)
}

func testEnded(t *testing.T, s *site) {
	first := s.sleeper()
	first.pid("pid")
	second := s.second()
	start := time.Now()
	first.signal(syscall.SIGTERM)
	first.exits(128 + 15)
	second.pid("pid")
	t.Logf("taken over after %s", time.Since(start))
}

func testCoordinatorGone(t *testing.T, program string) {
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 1})
	const timeout = 15 * time.Second // the command gets TERM a quarter of it before its end
	s := newSite(t, program, zk, timeout)
	l := s.sleeper()
	pid := l.pid("pid")
	start := time.Now()
	must.Succeed(t, zk.Kill())
	leadertest.Eventually(t, "the command is gone", func() bool { return !leadertest.Alive(pid) })
	if took := time.Since(start); took > timeout {
		t.Errorf("it was gone after %s, too late for a session timeout of %s", took, timeout)
	}
	l.exits(runLost)
	if !strings.Contains(l.log.String(), "the session could have expired soon") {
		t.Error("the log does not say why")
	}
}

// testFirstProcess runs leader as process 1 of a container. The command leaves orphans and waits
// until they are gone.
func testFirstProcess(t *testing.T, program string) {
	container := []string{"unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"}
	out, err := exec.Command(container[0], append(container[1:], "true")...).CombinedOutput()
	if err != nil {
		t.Skipf("this machine cannot make a PID namespace: %v: %s", err, out)
	}
	s := newSite(t, program, serverstest.SharedZooKeeper(t), 20*time.Second)
	s.program = container[0]
	l := s.start(append(container[1:], program, "run", "orders", "--", "/bin/sh", "-c", `
		for i in 1 2 3; do ( (exit 0) & ); done
		while grep -q ") Z 1 " /proc/[0-9]*/stat 2>/dev/null; do sleep 0.02; done
		exit 6`)...)
	l.exits(6)
}
