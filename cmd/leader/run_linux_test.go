package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
)

func TestExitCodeIsThatOfTheCommand(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "exit 3": 3, "kill -TERM $$": 128 + 15, "kill -KILL $$": 128 + 9,
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			l := shell(t, setup{}, script)
			l.exits(want)
			if len(l.queue()) != 0 {
				t.Error("did not resign")
			}
		})
	}
}

func TestCommandGetsTheTokenInEveryForm(t *testing.T) {
	t.Parallel()
	l := shell(t, setup{
		env: []string{"PGOPTIONS=-c a=b", "RINGFENCE_TOKEN=99", "OTHER=kept", "LEADER_HOLDER=me"},
	},
		`echo "$RINGFENCE_RESOURCE/$RINGFENCE_TOKEN/$RINGFENCE_HOLDER/$PGOPTIONS/$OTHER"; cat`)
	l.exits(0)
	if got, want := l.out.String(), "orders/1/me/-c a=b -c fence.orders=1/kept\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStdinReachesTheCommand(t *testing.T) {
	t.Parallel()
	l := shell(t, setup{stdin: strings.NewReader("by hand")}, "cat")
	l.exits(0)
	if got := l.out.String(); got != "by hand" {
		t.Errorf("got %q", got)
	}
}

func TestTheWholeGroupIsGoneWhenTheCommandEnds(t *testing.T) {
	t.Parallel()
	stdin, hold := holdStdin(t)
	l := shell(t, setup{stdin: stdin},
		`(trap "" TERM HUP; sleep 1000 & echo inner=$!; wait) & echo outer=$!; read line; exit 5`)
	inner, outer := l.pid("inner"), l.pid("outer")
	_ = hold.Close()
	l.exits(5)
	leadertest.MustBeGone(t, inner, outer)
}

// holdStdin returns a stdin that ends when the test closes hold.
func holdStdin(t *testing.T) (stdin, hold *os.File) {
	t.Helper()
	stdin, hold, err := os.Pipe()
	must.Succeed(t, err)
	t.Cleanup(func() { _, _ = stdin.Close(), hold.Close() })
	return stdin, hold
}

// The session timeout is far longer than the test, so the resignation lets the successor lead.
func TestNextCandidateLeadsAtOnceButOnlyAfterTheGroupIsGone(t *testing.T) {
	t.Parallel()
	stdin, hold := holdStdin(t)
	l := shell(t, setup{stdin: stdin}, `sleep 1000 & echo pid=$!; read line; exit 0`)
	pid := l.pid("pid")
	elected := l.successor(func() { leadertest.MustBeGone(t, pid) })
	_ = hold.Close() // the command ends
	l.exits(0)
	leadertest.Await(t, "the successor is elected", elected)
}

func TestDeposedCommandGetsTERMAndTheExitCodeIs3(t *testing.T) {
	t.Parallel()
	l := shell(t, setup{}, `trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done`)
	l.out.Await(t, "ready")
	l.depose()
	l.exits(runLost)
	l.out.Await(t, "bye")
	for _, want := range []string{
		`"resource":"orders"`, `"token":"1"`, `"holder":`, "deposed", `"next":`,
	} {
		if !strings.Contains(l.log.String(), want) {
			t.Errorf("no %s in the log", want)
		}
	}
}

func TestCommandThatIgnoresTERMIsKilledAfterTheGrace(t *testing.T) {
	t.Parallel()
	l := shell(t, setup{env: []string{"LEADER_GRACE=200ms"}},
		`trap "" TERM; sleep 1000 & echo inner=$!; echo outer=$$; while :; do sleep 0.02; done`)
	inner, outer := l.pid("inner"), l.pid("outer")
	start := time.Now()
	l.depose()
	l.exits(runLost)
	leadertest.MustBeGone(t, inner, outer)
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("killed after %s, before the grace was over", took)
	}
}

func TestAnExpiredSessionKillsAtOnce(t *testing.T) {
	t.Parallel()
	l := shell(t, setup{env: []string{"LEADER_SESSION_TIMEOUT=10m", "LEADER_GRACE=2m"}},
		`trap "" TERM; echo pid=$$; while :; do sleep 0.02; done`)
	pid := l.pid("pid")
	l.client.Expire()
	l.exits(runLost) // long before the grace is over
	leadertest.MustBeGone(t, pid)
}

func TestSignalsReachTheCommandAndNotItsProcesses(t *testing.T) {
	t.Parallel()
	l := shell(t, setup{}, `
		trap 'echo outer USR1' USR1; trap 'echo outer HUP' HUP
		trap 'echo outer INT' INT; trap 'echo outer QUIT' QUIT
		trap 'echo outer WINCH' WINCH; trap 'echo outer USR2' USR2; trap 'exit 9' TERM
		sh -c 'for s in USR1 HUP INT QUIT USR2 WINCH; do trap "echo inner $s" $s; done
			echo inner ready; while :; do sleep 0.02; done' &
		echo outer ready; while :; do wait; done`)
	l.out.Await(t, "inner ready")
	l.out.Await(t, "outer ready")
	for sig, name := range map[os.Signal]string{
		syscall.SIGUSR1: "USR1", syscall.SIGHUP: "HUP", syscall.SIGINT: "INT", syscall.SIGQUIT: "QUIT",
		syscall.SIGUSR2: "USR2", syscall.SIGWINCH: "WINCH",
	} {
		l.signals <- sig
		l.out.Await(t, "outer "+name)
	}
	l.signals <- syscall.SIGTERM
	l.exits(9)
	if out := strings.ReplaceAll(l.out.String(), "inner ready", ""); strings.Contains(out, "inner") {
		t.Errorf("a process of the command got a signal:\n%s", out)
	}
}

// preforked is a server as Celery's and gunicorn's are: on TERM it lets its worker finish. It
// writes with os.write, as a signal handler may not use a buffer that the program is writing to.
const preforked = `
import os, signal, sys, time
def say(what):
    os.write(1, what + b"\n")
worker = os.fork()
if worker == 0:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    say(b"worker is at work")
    os.read(0, 1)
    say(b"worker has finished")
    os._exit(0)
def stop(*_):
    say(b"told to stop")
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]))
signal.signal(signal.SIGTERM, stop)
say(b"ready")
while True:
    time.sleep(0.02)
`

func TestAPreforkingServerLetsItsWorkersFinish(t *testing.T) {
	t.Parallel()
	for code, tell := range map[int]func(*leaderRun){
		0:       func(l *leaderRun) { l.signals <- syscall.SIGTERM },
		runLost: func(l *leaderRun) { l.depose() },
	} {
		stdin, hold := holdStdin(t)
		l := begin(t, setup{stdin: stdin, env: patient}, "run", "orders", "--", "python3", "-c",
			preforked)
		l.out.Await(t, "worker is at work")
		l.out.Await(t, "ready")
		tell(l)
		l.out.Await(t, "told to stop")
		_, _ = hold.Write([]byte("x")) // the worker's task is done
		l.out.Await(t, "worker has finished")
		l.exits(code)
	}
}

// patient gives a command more time to end than a test takes.
var patient = []string{"LEADER_GRACE=20s", "LEADER_SESSION_TIMEOUT=2m"}

// The shell ends by TERM. Its process is told as well, and has the rest of the grace.
func TestWhatACommandLeavesBehindIsToldToEnd(t *testing.T) {
	t.Parallel()
	l := shell(t, setup{env: patient}, `
		sh -c 'trap "echo cleaned up; exit 0" TERM; echo inner=$$; while :; do sleep 0.02; done' &
		echo outer=$$; wait`)
	inner, outer := l.pid("inner"), l.pid("outer")
	l.depose()
	l.exits(runLost)
	l.out.Await(t, "cleaned up")
	leadertest.MustBeGone(t, inner, outer)
}

func TestWhatIgnoresTERMIsKilledAfterTheCommandAndTheGrace(t *testing.T) {
	t.Parallel()
	l := shell(t, setup{env: []string{"LEADER_GRACE=200ms"}},
		`sh -c 'trap "" TERM; echo inner=$$; while :; do sleep 0.02; done' &
		echo outer=$$; wait`)
	inner, outer := l.pid("inner"), l.pid("outer")
	l.signals <- syscall.SIGTERM
	l.exits(128 + 15)
	leadertest.MustBeGone(t, inner, outer)
}

func TestSecondTERMKills(t *testing.T) {
	t.Parallel()
	for _, second := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		l := shell(t, setup{},
			`trap 'echo no' TERM; trap "" INT; echo ready; while :; do sleep 0.02; done`)
		l.out.Await(t, "ready")
		l.signals <- syscall.SIGTERM
		l.out.Await(t, "no")
		l.signals <- second
		l.exits(128 + 9)
	}
}

func TestSignalDuringTheCampaignWithdrawsTheCandidacy(t *testing.T) {
	t.Parallel()
	m := fencetest.NewMemory(longSession)
	first := shell(t, setup{memory: m}, "echo ready; exec sleep 1000")
	first.out.Await(t, "ready")
	second := shell(t, setup{memory: m}, "echo never")
	leadertest.Eventually(t, "two candidates", func() bool { return len(first.queue()) == 2 })
	second.signals <- syscall.SIGUSR1 // has no effect without a command
	second.signals <- syscall.SIGTERM
	second.exits(128 + 15)
	if len(first.queue()) != 1 || second.out.String() != "" {
		t.Errorf("queue %v, output %q", first.queue(), second.out)
	}
	first.signals <- syscall.SIGTERM
	first.exits(128 + 15)
}

func TestWithAnUnknownCommandLeaderDoesNotStandForElection(t *testing.T) {
	t.Parallel()
	l := begin(t, setup{}, "run", "orders", "--", "no-such-command-anywhere")
	l.exits(notFound)
	if strings.Contains(l.log.String(), "standing for election") {
		t.Error("it stood for election nevertheless")
	}
}

func TestLeaderResignsIfTheCommandCannotBeStarted(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/broken"
	must.Succeed(t, os.WriteFile(path, []byte("#!/no/such/interpreter\n"), 0o755))
	l := begin(t, setup{}, "run", "orders", "--", path)
	l.exits(notRun)
	if len(l.queue()) != 0 {
		t.Error("did not resign")
	}
}

// fakeStore is a store whose raises the test controls.
type fakeStore struct {
	mu     sync.Mutex
	raised []fence.Token
	answer func(n int) error // to the n-th raise, from 1
}

func (f *fakeStore) Raise(_ context.Context, c fence.Claim) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raised = append(f.raised, c.Token)
	return f.answer(len(f.raised))
}

// with returns a setup with f as its only store.
func (f *fakeStore) with() setup {
	return setup{
		env:    []string{"LEADER_STORES=fake://u:s3cr3t@h/"},
		stores: stores.Table{"fake": func(string, elector.Observer) fence.Raiser { return f }},
	}
}

func refusal(r fence.Reason) error { return &fence.Refusal{Reason: r, Message: "refused"} }

func TestCommandStartsAfterEveryMarkIsRaisedAndTheTermAcknowledged(t *testing.T) {
	t.Parallel()
	m := fencetest.NewMemory(longSession)
	observer := m.Open()
	defer observer.Close()
	var atRaise []elector.Candidate
	f := &fakeStore{answer: func(int) (err error) {
		atRaise, err = observer.Candidates(t.Context(), "orders")
		return err
	}}
	s := f.with()
	s.memory = m
	l := shell(t, s, "echo ready; exec sleep 1000")
	l.out.Await(t, "ready")
	if len(atRaise) != 1 || atRaise[0].Ready {
		t.Errorf("when the mark was raised, the candidates were %v", atRaise)
	}
	if q := l.queue(); len(q) != 1 || !q[0].Ready {
		t.Errorf("when the command had started, the candidates were %v", q)
	}
	l.signals <- syscall.SIGTERM
	l.exits(128 + 15)
}

func TestTransientRefusalIsRetriedWithANewTerm(t *testing.T) {
	t.Parallel()
	passing := []error{
		errors.New("connection refused"), refusal(fence.ErrUnrevoked), refusal(fence.ErrNotLeader),
	}
	f := &fakeStore{answer: func(n int) error {
		if n <= len(passing) {
			return passing[n-1]
		}
		return nil
	}}
	l := shell(t, f.with(), "echo token=$RINGFENCE_TOKEN")
	l.exits(0)
	if got := l.pid("token"); got != 4 || !slices.Equal(f.raised, []fence.Token{1, 2, 3, 4}) {
		t.Errorf("the command ran under %d after raises %v", got, f.raised)
	}
	if strings.Contains(l.log.String(), "s3cr3t") {
		t.Error("the log contains the store's password")
	}
}

func TestPermanentRefusalEndsTheRun(t *testing.T) {
	t.Parallel()
	for reason, want := range map[fence.Reason]int{
		fence.ErrStale: runLost, fence.ErrOtherIssuer: runError,
		fence.ErrNotInstalled: runError, fence.ErrMalformed: runError,
		fence.ErrNotAuthorized: runError,
	} {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			l := shell(t, (&fakeStore{answer: func(int) error {
				return refusal(reason)
			}}).with(), "echo never")
			l.exits(want)
			if l.out.String() != "" || len(l.queue()) != 0 {
				t.Errorf("output %q, queue %v", l.out, l.queue())
			}
			if !strings.Contains(l.log.String(), `"next":`) ||
				!strings.Contains(l.log.String(), "fake://u:xxxxx@h/") {
				t.Error("the log does not name the store or the next step")
			}
		})
	}
}

func TestSignalDuringABackoffEndsTheRun(t *testing.T) {
	t.Parallel()
	l := shell(t, (&fakeStore{answer: func(int) error {
		return errors.New("unreachable")
	}}).with(), "echo never")
	l.log.Await(t, "standing again")
	l.signals <- syscall.SIGINT
	l.exits(128 + 2)
}

func TestRaiseAtASilentStoreTimesOut(t *testing.T) {
	t.Parallel()
	s := setup{
		env: []string{"LEADER_STORES=fake://h/", "LEADER_RAISE_TIMEOUT=50ms"},
		stores: stores.Table{"fake": func(string, elector.Observer) fence.Raiser {
			return silentStore{}
		}},
	}
	l := shell(t, s, "echo never")
	l.log.Await(t, "LEADER_RAISE_TIMEOUT=50ms")
	l.signals <- syscall.SIGTERM
	l.exits(128 + 15)
}

type silentStore struct{}

func (silentStore) Raise(ctx context.Context, _ fence.Claim) error {
	<-ctx.Done()
	return ctx.Err()
}

// A service manager has to tell what a command says from what leader says.
func TestTheCodesOfACommandAreNotLeaders(t *testing.T) {
	t.Parallel()
	for _, code := range []int{1, 2, 3, runUsage, notFound} {
		shell(t, setup{}, fmt.Sprintf("exit %d", code)).exits(code)
	}
	begin(t, setup{}, "run", "orders").exits(runUsage)
	begin(t, setup{env: []string{"LEADER_GRACE=never"}}, "run", "orders", "--", "true").exits(runUsage)
}
