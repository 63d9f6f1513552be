package tasks

import (
	"strings"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/leadertest"
)

func TestTERMEndsTheStepAndResignsAndTheNextCopyContinues(t *testing.T) {
	b := newBench(t, `
steps:
  - {name: first, run: "echo x >>first"}
  - name: second
    run: |
      trap 'echo bye; exit 0' TERM
      echo pid=$$
      while [ ! -e go ]; do sleep 0.02; done
`)
	b.env = append(b.env, "LEADER_GRACE=9s") // time to say bye
	first := b.run()
	pid := first.pid("pid")
	second := b.run()
	leadertest.Eventually(t, "the second is enrolled", func() bool { return len(first.queue()) == 2 })
	first.signals <- syscall.SIGTERM
	first.out.Await(t, "bye")
	first.exits(128 + 15)
	leadertest.MustBeGone(t, pid)
	next := second.pid("pid")
	b.touch("go")
	second.exits(cli.Done)
	leadertest.MustBeGone(t, next)
	if b.inDir("first") != "x\n" || b.saved().Version != 2 {
		t.Errorf("first ran %q, %+v", b.inDir("first"), b.saved())
	}
}

func TestCommandThatIgnoresTERMIsKilled(t *testing.T) {
	b := newBench(t, "steps: [{name: s, run: 'trap \"\" TERM; sleep 1000 & echo inner=$!; echo "+
		"pid=$$; wait; sleep 1000'}]\n")
	l := b.run()
	pid, inner := l.pid("pid"), l.pid("inner")
	l.signals <- syscall.SIGINT
	l.exits(128 + 2)
	leadertest.MustBeGone(t, pid, inner)
}

func TestSignalEndsAStandby(t *testing.T) {
	b := newBench(t, "steps: [{name: s, run: 'echo began; sleep 1000'}]\n")
	first := b.run()
	first.out.Await(t, "began")
	second := b.run()
	leadertest.Eventually(t, "the second is enrolled", func() bool { return len(first.queue()) == 2 })
	second.signals <- syscall.SIGTERM
	second.exits(128 + 15)
	first.signals <- syscall.SIGTERM
	first.exits(128 + 15)
}

func TestADeposedCopyStandsForElectionAgainAndStandbysEndWithTheTask(t *testing.T) {
	b := newBench(t, "steps: [{name: s, run: 'echo token=$RINGFENCE_TOKEN; while [ ! -e go ]; do "+
		"sleep 0.02; done'}]\n")
	first := b.run()
	if token := first.pid("token"); token != 1 {
		t.Fatalf("token %d", token)
	}
	first.depose()
	first.out.Await(t, "token=2")
	second := b.run()
	leadertest.Eventually(t, "the second is enrolled", func() bool { return len(first.queue()) == 2 })
	b.touch("go")
	first.exits(cli.Done)
	second.exits(cli.Done) // the first has done the task
	if second.out.String() != "" {
		t.Errorf("the second ran the step: %q", second.out)
	}
}

// The stop does not count as a failure of the step, which has only one attempt.
func TestCommandThatWasStoppedAfterADisconnectionRunsAgain(t *testing.T) {
	b := newBench(t, `
steps:
  - name: s
    run: |
      if [ ! -e second ]; then : >second; echo pid=$$; sleep 1000; fi
      echo pid=$$
`)
	b.env = append(b.env, "LEADER_ON_DISCONNECT=stop")
	l := b.run()
	pid := l.pid("pid")
	l.client.Cut()
	leadertest.Eventually(t, "it is stopped", func() bool { return !leadertest.Alive(pid) })
	l.client.Heal()
	l.exits(cli.Done)
	if strings.Count(l.out.String(), "pid=") != 2 || strings.Contains(l.log.String(), "has failed") ||
		b.saved().Token != 1 {
		t.Errorf("ran as %q under token %s", l.out, b.saved().Token)
	}
}

func TestCommandIsPausedWhileTheCoordinatorIsOutOfReach(t *testing.T) {
	b := newBench(t, "steps: [{name: s, run: 'echo pid=$$; while [ ! -e go ]; do sleep 0.02; "+
		"done'}, {name: u, run: 'true'}]\n")
	l := b.run()
	pid := l.pid("pid")
	l.client.Cut()
	leadertest.Eventually(t, "it is paused", func() bool { return leadertest.Halted(pid) })
	b.touch("go")
	if b.saved().Version != 0 {
		t.Error("the step has ended nevertheless")
	}
	l.client.Heal()
	l.exits(cli.Done)
}

// The session expires while the command runs. That does not count as a failure either.
func TestStepOfALostTermDoesNotCountAsFailed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a session timeout of 6 s")
	}
	b := newBench(t, "steps: [{name: s, run: 'echo token=$RINGFENCE_TOKEN; while [ ! -e go ]; do "+
		"sleep 0.02; done'}]\n")
	b.env = append(b.env, "LEADER_SESSION_TIMEOUT="+shortSession.String(),
		"LEADER_ON_DISCONNECT=continue")
	b.memory = fencetest.NewMemory(shortSession)
	l := b.run()
	l.out.Await(t, "token=1")
	l.client.Cut()
	l.log.Await(t, "interrupted")
	l.client.Heal()
	l.out.Await(t, "token=2")
	if cp := b.saved(); cp.Status == checkpoint.Stopped {
		t.Errorf("got %+v", cp.Failure)
	}
	b.touch("go")
	l.exits(cli.Done)
}
