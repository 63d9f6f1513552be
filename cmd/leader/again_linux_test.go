package main

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/supervise"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/process"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// shellAgain is shell with --again.
func shellAgain(t *testing.T, s setup, script string) *leaderRun {
	t.Helper()
	return begin(t, s, "run", "--again", "orders", "--", "/bin/sh", "-c", script)
}

// runs waits for the nth run of a command that does printsRun, and returns its process id.
func (l *leaderRun) runs(n int) (pid int) {
	l.t.Helper()
	leadertest.Eventually(l.t, fmt.Sprintf("run %d of the command", n), func() bool {
		found := strings.Split(l.out.String(), "run=")
		if len(found) <= n {
			return false
		}
		line, _, whole := strings.Cut(found[n], "\n")
		pid, _ = strconv.Atoi(line)
		return whole && pid > 0
	})
	return pid
}

const printsRun = `echo run=$$; `

// groupIsGone fails the test if a process of the group exists.
func groupIsGone(t *testing.T, group int) {
	t.Helper()
	for _, p := range process.List() {
		if p.Group == group && !p.Dead() {
			t.Errorf("process %d of the command still exists, in state %s", p.Pid, p.State)
		}
	}
}

func TestAgainLeadsAgainAfterEveryLossOnceTheCommandIsGone(t *testing.T) {
	t.Parallel()
	before := make(chan int, 1) // the command of the term before
	f := &fakeStore{answer: func(n int) error {
		if n > 1 {
			groupIsGone(t, <-before)
		}
		return nil
	}}
	s := f.with()
	s.env = append(s.env, "LEADER_GRACE=100ms")
	s.memory = fencetest.NewMemory(longSession)
	l := shellAgain(t, s, `trap "" TERM; sleep 1000 & `+printsRun+`exec sleep 1000`)
	for n, lose := range []func(){l.depose, func() { l.client.Expire() }, l.depose} {
		before <- l.runs(n + 1)
		lose()
	}
	last := l.runs(4)
	if q := l.queue(); len(q) != 1 || q[0].Token != 4 {
		t.Errorf("the candidates are %v", q)
	}
	l.signals <- syscall.SIGTERM
	l.signals <- syscall.SIGTERM
	l.exits(128 + 9)
	groupIsGone(t, last)
	if len(l.queue()) != 0 || !slices.Equal(f.raised, []fence.Token{1, 2, 3, 4}) {
		t.Errorf("the candidates are %v, the raises were %v", l.queue(), f.raised)
	}
}

func TestAgainEndsWithTheCommandsOwnEnd(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "exit 3": 3, "kill -KILL $$": 128 + 9,
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			l := shellAgain(t, setup{}, printsRun+script)
			l.exits(want)
			if strings.Count(l.out.String(), "run=") != 1 {
				t.Errorf("the command has printed %q", l.out)
			}
		})
	}
}

func TestAgainEndsAtPermanentErrorsOnly(t *testing.T) {
	t.Parallel()
	for _, reason := range []fence.Reason{
		fence.ErrOtherIssuer, fence.ErrNotInstalled, fence.ErrMalformed,
	} {
		l := shellAgain(t, (&fakeStore{answer: func(int) error {
			return refusal(reason)
		}}).with(), "echo never")
		l.exits(runError)
	}
	l := shellAgain(t, (&fakeStore{answer: func(n int) error {
		if n == 1 {
			return refusal(fence.ErrStale)
		}
		return nil
	}}).with(), "exit 5")
	l.exits(5)
	l.log.Await(t, "two elections (LEADER_COORDINATOR) share this store")
	l = begin(t, setup{}, "run", "--again", "orders", "--", "no-such-command-anywhere")
	l.exits(notFound)
}

func TestTERMEndsAgainForGood(t *testing.T) {
	t.Parallel()
	t.Run("while the command stops after a loss", func(t *testing.T) {
		t.Parallel()
		l := shellAgain(t, setup{env: []string{"LEADER_SESSION_TIMEOUT=10m", "LEADER_GRACE=2m"}},
			`trap "" TERM; `+printsRun+`while :; do sleep 0.02; done`)
		pid := l.runs(1)
		l.depose()
		l.log.Await(t, "the command must stop")
		l.signals <- syscall.SIGTERM
		l.exits(128 + 15)
		leadertest.MustBeGone(t, pid)
	})
	t.Run("before the loss", func(t *testing.T) {
		t.Parallel()
		l := shellAgain(t, setup{env: []string{"LEADER_GRACE=100ms"}},
			`trap "echo no" TERM; `+printsRun+`while :; do sleep 0.02; done`)
		pid := l.runs(1)
		l.signals <- syscall.SIGTERM
		l.out.Await(t, "no")
		l.depose()
		l.exits(128 + 15)
		leadertest.MustBeGone(t, pid)
		if strings.Contains(l.log.String(), "standing again") {
			t.Error("it wanted to stand again")
		}
	})
	t.Run("between two terms", func(t *testing.T) {
		t.Parallel()
		l := shellAgain(t, setup{}, printsRun+"exec sleep 1000")
		l.runs(1)
		l.depose()
		l.log.Await(t, "standing again")
		l.signals <- syscall.SIGTERM
		l.exits(128 + 15)
		if len(l.queue()) != 0 {
			t.Errorf("the candidates are %v", l.queue())
		}
	})
}

// A guard may end the command's sessions before leader knows that the term is lost.
func TestAgainTakesAFailureAfterTheLossForTheLoss(t *testing.T) {
	t.Parallel()
	screen := leadertest.NewScreen()
	r := &commandRunner{invocation: &invocation{log: slog.New(slog.NewTextHandler(screen, nil))}}
	r.again = true
	for _, c := range []struct {
		o     outcome
		err   error
		again bool
		code  int
	}{
		{outcome{code: 1}, fence.ErrDeposed, true, 0},
		{outcome{code: 1}, errors.New("could not resign"), false, 1},
		{outcome{code: 0}, fence.ErrDeposed, false, 0},
		{outcome{code: 1, ordered: true}, fence.ErrDeposed, false, 1},
		{outcome{stopped: fence.ErrDeposed}, fence.ErrDeposed, true, 0},
		// what could not be killed could still write, next to its successor
		{outcome{stopped: fence.ErrDeposed, left: "7 (sh, user 0)"}, fence.ErrDeposed, false, cli.Lost},
		{outcome{
			stopped: fence.ErrDeposed, ordered: true, order: supervise.Signalled{Signal: syscall.SIGINT},
		},
			fence.ErrDeposed, false, 128 + 2},
	} {
		if code, again := r.report(&c.o, c.err); code != c.code || again != c.again {
			t.Errorf("%+v with %v: code %d, again %t", c.o, c.err, code, again)
		}
	}
}

// leadsBackAndForth runs two leaders with --again. Leadership goes back and forth: by a
// resignation, and by a pause past the session timeout.
func leadsBackAndForth(t *testing.T, s *site) {
	candidate := func() *leader {
		return s.start("run", "--again", "orders", "--", "/bin/sh", "-c", printsRun+"exec sleep 1000")
	}
	both := func() {
		leadertest.Eventually(t, "there are two candidates", func() bool {
			return len(s.electionStatus().Candidates) == 2
		})
	}
	first := candidate()
	pid := first.runs(1)
	second := candidate()
	both()

	s.start("resign", "orders").exits(cli.Done)
	next := second.runs(1)
	leadertest.Eventually(t, "the deposed command is gone", func() bool {
		return !leadertest.Alive(pid)
	})
	both() // the first stands again

	second.signal(syscall.SIGSTOP)
	pid = first.runs(2)
	second.signal(syscall.SIGCONT)
	leadertest.Eventually(t, "the late command is gone", func() bool {
		return !leadertest.Alive(next)
	})
	both() // and so does the second, whose session had expired

	first.signal(syscall.SIGTERM)
	first.exits(128 + 15)
	leadertest.MustBeGone(t, pid)
	last := second.runs(2)
	second.signal(syscall.SIGTERM)
	second.exits(128 + 15)
	leadertest.MustBeGone(t, last)
	if now := s.electionStatus(); len(now.Candidates) != 0 {
		t.Errorf("the candidates are %+v", now.Candidates)
	}
}

// testAgainWithoutCoordinator takes the coordinator away until the term is lost, and brings it
// back.
func testAgainWithoutCoordinator(t *testing.T, program string) {
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 1})
	s := newSite(t, program, zk, shortSession)
	l := s.start("run", "--again", "orders", "--", "/bin/sh", "-c", printsRun+"exec sleep 1000")
	pid := l.runs(1)
	must.Succeed(t, zk.Pause())
	l.log.Await(t, "standing again")
	leadertest.MustBeGone(t, pid)
	must.Succeed(t, zk.Resume())
	l.runs(2)
}
