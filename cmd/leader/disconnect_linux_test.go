package main

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/leadertest"
)

// stubborn ends only after KILL.
const stubborn = `trap "" TERM; sleep 1000 & echo inner=$!; echo pid=$$; exec sleep 1000`

func TestPauseStopsTheCommandUntilTheCoordinatorIsBack(t *testing.T) {
	t.Parallel()
	l := shell(t, setup{
		memory: fencetest.NewMemory(leadertest.Patience), env: []string{"LEADER_SESSION_TIMEOUT=30s"},
	}, stubborn)
	pid, inner := l.pid("pid"), l.pid("inner")
	for range 2 {
		l.client.Cut()
		leadertest.Eventually(t, "the group is stopped", func() bool {
			return leadertest.Halted(pid) && leadertest.Halted(inner)
		})
		l.client.Heal()
		leadertest.Eventually(t, "the group continues", func() bool {
			return !leadertest.Halted(pid) && !leadertest.Halted(inner)
		})
	}
	l.signals <- syscall.SIGTERM
	l.signals <- syscall.SIGTERM
	l.exits(128 + 9)
	leadertest.MustBeGone(t, pid, inner)
}

func TestTERMEndsAPausedCommand(t *testing.T) {
	t.Parallel()
	l := shell(t, setup{}, `trap 'exit 4' TERM; echo pid=$$; while :; do sleep 0.02; done`)
	pid := l.pid("pid")
	l.client.Cut()
	leadertest.Eventually(t, "it is stopped", func() bool { return leadertest.Halted(pid) })
	l.signals <- syscall.SIGTERM
	l.exits(4)
}

func TestContinueLetsTheCommandRun(t *testing.T) {
	t.Parallel()
	l := shell(t, setup{env: []string{"LEADER_ON_DISCONNECT=continue"}}, stubborn)
	pid := l.pid("pid")
	l.client.Cut()
	l.log.Await(t, "out of reach")
	if leadertest.Halted(pid) || !leadertest.Alive(pid) {
		t.Errorf("the command is in state %q", leadertest.State(pid))
	}
	l.client.Heal()
	l.log.Await(t, "is back")
	l.signals <- syscall.SIGTERM
	l.signals <- syscall.SIGTERM
	l.exits(128 + 9)
}

func TestStopEndsTheCommandAtOnce(t *testing.T) {
	t.Parallel()
	l := shell(t, setup{env: []string{"LEADER_ON_DISCONNECT=stop", "LEADER_GRACE=100ms"}}, stubborn)
	pid, inner := l.pid("pid"), l.pid("inner")
	l.client.Cut()
	l.exits(runLost) // long before the session could expire
	leadertest.MustBeGone(t, pid, inner)
}

// The successor is elected when the session of the disconnected leader expires at the coordinator.
// On a machine that stalls for longer than the margin, the KILL may be late. Such a run shows
// nothing, so the test is repeated.
func TestCommandIsGoneBeforeASuccessorIsElected(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a session timeout of 20 s")
	}
	t.Parallel()
	for _, policy := range []string{"pause", "continue"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			for tries := 5; ; tries-- {
				machine := watchStalls(t)
				there := survivors(t, policy)
				stall := machine.longest()
				if len(there) == 0 {
					return
				}
				if stall < 500*time.Millisecond || tries == 1 {
					t.Fatalf("the successor was elected while processes %v existed; longest stall %s", there,
						stall)
				}
				t.Logf("processes %v existed at the election, but the machine stalled for %s: repeating", there,
					stall)
			}
		})
	}
}

// survivors disconnects a leader and returns the processes of its command that exist when the
// successor is elected.
func survivors(t *testing.T, policy string) (there []int) {
	t.Helper()
	l := shell(t, setup{
		memory: fencetest.NewMemory(20 * time.Second), // with the largest margin: a second
		env:    []string{"LEADER_SESSION_TIMEOUT=20s", "LEADER_ON_DISCONNECT=" + policy},
	}, stubborn)
	command := []int{l.pid("pid"), l.pid("inner")}
	elected := l.successor(func() {
		there = slices.DeleteFunc(slices.Clone(command), func(pid int) bool {
			return !leadertest.Alive(pid)
		})
	})
	l.client.Cut()
	l.exits(runLost)
	leadertest.Await(t, "the successor is elected", elected)
	return there
}

func TestCommandGetsTERMInTimeForItsGrace(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a session timeout of 12 s")
	}
	t.Parallel()
	l := shell(t, setup{
		memory: fencetest.NewMemory(12 * time.Second),
		env:    []string{"LEADER_SESSION_TIMEOUT=12s", "LEADER_GRACE=3s"},
	}, `trap 'echo bye; exit 0' TERM; echo pid=$$; while :; do sleep 0.02; done`)
	pid := l.pid("pid")
	l.client.Cut()
	leadertest.Eventually(t, "it is stopped", func() bool { return leadertest.Halted(pid) })
	l.exits(runLost)
	l.out.Await(t, "bye") // it was resumed to handle TERM
}
