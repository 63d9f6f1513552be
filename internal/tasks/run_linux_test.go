package tasks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/leadertest"
)

// bench is a task file, and one coordinator and one journal in memory for all leaders of a test.
type bench struct {
	t    *testing.T
	file string
	setup
}

// newBench writes a task file for the task t of the resource orders; steps is the rest of the YAML.
func newBench(t *testing.T, steps string) *bench {
	t.Helper()
	t.Parallel()
	b := &bench{
		t: t, file: filepath.Join(t.TempDir(), "t.yaml"), setup: setup{
			memory: fencetest.NewMemory(longSession), journal: checkpointtest.NewMemory(),
		},
	}
	b.env = []string{"LEADER_SESSION_TIMEOUT=30s", "LEADER_GRACE=300ms"}
	b.steps(steps)
	return b
}

func (b *bench) steps(steps string) {
	b.t.Helper()
	if err := os.WriteFile(b.file, []byte("task: t\nresource: orders\n"+steps), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// run starts a copy.
func (b *bench) run() *taskCopy { b.t.Helper(); return begin(b.t, b.setup, "task", b.file) }

// saved returns the checkpoint.
func (b *bench) saved() (cp checkpoint.Checkpoint) {
	b.t.Helper()
	found, err := b.journal.Load(b.t.Context(), "t")
	if err != nil {
		b.t.Fatal(err)
	}
	if len(found) > 0 {
		cp = found[0]
	}
	return cp
}

// shown returns the checkpoint that leader task show prints.
func (b *bench) shown() (cp checkpoint.Checkpoint) {
	b.t.Helper()
	l := b.say(cli.Done, "task", "show", b.file, "-o", "json")
	if err := json.Unmarshal([]byte(l.out.String()), &cp); err != nil {
		b.t.Fatalf("%v in %s", err, l.out)
	}
	return cp
}

// say runs a subcommand to its end.
func (b *bench) say(want int, args ...string) *taskCopy {
	b.t.Helper()
	l := begin(b.t, b.setup, args...)
	l.exits(want)
	return l
}

// touch creates a file next to the task file.
func (b *bench) touch(name string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(b.file), name), nil, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// inDir returns the text of a file next to the task file.
func (b *bench) inDir(name string) string {
	text, _ := os.ReadFile(filepath.Join(filepath.Dir(b.file), name))
	return string(text)
}

func TestStateGoesInAndOutOfEachCommand(t *testing.T) {
	b := newBench(t, `
state: {n: 9007199254740993}
steps:
  - name: first
    run: |
      cat >stdin.json
      echo "$RINGFENCE_STATE" >state
      [ "$(stat -c %a "$RINGFENCE_STATE" "$(dirname "$RINGFENCE_STATE")" | tr '\n' ' ')" = "600 700 " ]
      cmp stdin.json "$RINGFENCE_STATE"
      echo ' {"n": 9007199254740994, "by": "first"} ' >"$RINGFENCE_STATE"
  - {name: second, run: "echo changes nothing"}
  - name: third
    run: sed s/first/third/ <"$RINGFENCE_STATE" >new && mv new "$RINGFENCE_STATE"
`)
	l := b.run()
	l.exits(cli.Done)
	cp := b.saved()
	if cp.Status != checkpoint.Done || string(cp.State) != `{"n":9007199254740994,"by":"third"}` {
		t.Errorf("got %+v, state %s", cp, cp.State)
	}
	if got := b.inDir("stdin.json"); got != `{"n":9007199254740993}` {
		t.Errorf("stdin was %q", got)
	}
	if _, err := os.Stat(strings.TrimSpace(b.inDir("state"))); !os.IsNotExist(err) {
		t.Errorf("the state file is left behind: %v", err)
	}
	if len(l.queue()) != 0 {
		t.Error("did not resign")
	}
}

func TestCommandOfAStepGetsItsNameKeyAndToken(t *testing.T) {
	b := newBench(t, `
rounds: 2
steps:
  - name: send all
    run: |
      echo "$RINGFENCE_TASK/$RINGFENCE_RUN/$RINGFENCE_ROUND/$RINGFENCE_STEP/$RINGFENCE_KEY/$RINGFENCE_RESOURCE/$RINGFENCE_TOKEN/$RINGFENCE_HOLDER/$PGOPTIONS"
`)
	b.env = append(b.env, "LEADER_HOLDER=me")
	l := b.run()
	l.exits(cli.Done)
	want := "t/1/1/send all/t/1/1/send all/orders/1/me/-c fence.orders=1\nt/1/2/send " +
		"all/t/1/2/send all/orders/1/me/-c fence.orders=1\n"
	if l.out.String() != want {
		t.Errorf("got %q", l.out)
	}
}

func TestAFailingStepIsRetriedThenStopsTheTaskUntilItIsResumed(t *testing.T) {
	b := newBench(t, `
retry: {attempts: 3, backoff: 1ms}
steps:
  - {name: first, run: "echo x >>first"}
  - name: second
    run: |
      echo y >>second; echo "no such account: 7" >&2
      [ -e fixed ]
`)
	l := b.run()
	l.exits(cli.Error)
	cp := b.saved()
	if cp.Status != checkpoint.Stopped || cp.Failure.Attempts != 3 ||
		cp.Failure.Message != "exit code 1: no such account: 7" || b.inDir("second") != "y\ny\ny\n" {
		t.Errorf("got %+v, failure %+v, tried %q", cp, cp.Failure, b.inDir("second"))
	}
	for _, want := range []string{
		`"msg":"step has failed; retrying"`, `"attempt":2`, "the task is stopped",
		"leader task resume " + b.file,
	} {
		if !strings.Contains(l.log.String(), want) {
			t.Errorf("no %s in the log", want)
		}
	}
	b.run().exits(cli.Error) // another copy changes nothing
	shown := b.say(cli.Done, "task", "show", b.file).out.String()
	for _, want := range []string{
		"status    stopped\n", "step      2 of 2: second\n", "after 3 attempts",
		`exit code 1: no such account: 7`,
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in:\n%s", want, shown)
		}
	}

	b.touch("fixed")
	out := b.say(cli.Done, "task", "resume", "t").out.String()
	if !strings.Contains(out, "task t is running at step 2 of 2: second, run 1") {
		t.Errorf("resume says %q", out)
	}
	out = b.say(cli.Done, "task", "resume", b.file).out.String()
	if !strings.Contains(out, "is running, not stopped; nothing was changed") {
		t.Errorf("the second resume says %q", out)
	}
	b.run().exits(cli.Done)
	if b.inDir("first") != "x\n" || b.inDir("second") != "y\ny\ny\ny\n" {
		t.Errorf("first ran %q, second %q", b.inDir("first"), b.inDir("second"))
	}
}

func TestRestartBeginsTheNextRun(t *testing.T) {
	b := newBench(t, "state: {n: 1}\nsteps: [{name: s, run: 'echo $RINGFENCE_KEY; cat; echo \"{}\" "+
		">$RINGFENCE_STATE'}]\n")
	b.run().exits(cli.Done)
	again := b.run() // the task is done already
	again.exits(cli.Done)
	if again.out.String() != "" {
		t.Errorf("it has run again: %q", again.out)
	}
	out := b.say(cli.Done, "task", "restart", b.file).out.String()
	if !strings.Contains(out, "at step 1 of 1: s, run 2") {
		t.Errorf("restart says %q", out)
	}
	l := b.run()
	l.exits(cli.Done)
	if got := l.out.String(); got != "t/2/1/s\n{\"n\":1}" {
		t.Errorf("the second run printed %q", got)
	}
}

func TestOnlyTheLeaderMayRestartAndTheErrorNamesIt(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a session timeout of 3 s")
	}
	b := newBench(t, "steps: [{name: a, run: 'true'}, {name: b, run: 'echo began; sleep 1000'}]\n")
	// restart waits as long for the leader to resign
	b.env = append(b.env, "LEADER_SESSION_TIMEOUT=3s", "LEADER_GRACE=1ms")
	holder := b.env
	b.env = append(holder, "LEADER_HOLDER=the-first")
	first := b.run()
	first.out.Await(t, "began")
	b.env = holder
	l := b.say(cli.Error, "task", "restart", b.file)
	for _, want := range []string{
		"the-first leads orders with token 1", "leader resign orders", "nothing was changed",
	} {
		if !strings.Contains(l.log.String(), want) {
			t.Errorf("no %q in the log", want)
		}
	}
	if len(first.queue()) != 1 {
		t.Error("restart still stands for election")
	}
	first.signals <- syscall.SIGTERM
	first.exits(128 + 15)
}

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

func TestAStepThatTimesOutIsEndedAndRetried(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as two timeouts of 3 s")
	}
	b := newBench(t, `
steps:
  - name: s
    timeout: 3s # enough for the shell to reach its first line
    retry: {attempts: 2, backoff: 1ms}
    run: |
      echo pid=$$ >>pids
      sleep 1000
`)
	start := time.Now()
	b.run().exits(cli.Error)
	cp := b.saved()
	if cp.Status != checkpoint.Stopped || cp.Failure.Attempts != 2 ||
		!strings.Contains(cp.Failure.Message, "timeout of 3s") || time.Since(start) < 6*time.Second {
		t.Errorf("got %+v after %s", cp.Failure, time.Since(start))
	}
	if strings.Count(b.inDir("pids"), "pid=") != 2 {
		t.Errorf("it ran as %q", b.inDir("pids"))
	}
}

func TestAStateThatIsNotAnObjectFailsTheStep(t *testing.T) {
	for script, want := range map[string]string{
		`echo "[1]" >$RINGFENCE_STATE`: "not a JSON object", `rm $RINGFENCE_STATE`: "no such file",
		`echo null >$RINGFENCE_STATE`:                  "not a JSON object",
		`: >$RINGFENCE_STATE`:                          "not a JSON object",
		`rm $RINGFENCE_STATE; mkfifo $RINGFENCE_STATE`: "has to be a file",
		`head -c 2000000 /dev/zero >$RINGFENCE_STATE`:  "more than 1048576 bytes",
		`echo '{"a": 1} {"b": 2}' >$RINGFENCE_STATE`:   "not a JSON object",
	} {
		t.Run(script, func(t *testing.T) {
			text, _ := json.Marshal(script)
			b := newBench(t, "state: {a: 1}\nsteps: [{name: s, run: "+string(text)+"}]\n")
			b.run().exits(cli.Error)
			if cp := b.saved(); cp.Status != checkpoint.Stopped ||
				!strings.Contains(cp.Failure.Message, want) || string(cp.State) != `{"a":1}` {
				t.Errorf("got %+v, state %s", cp.Failure, cp.State)
			}
		})
	}
}

// The start of the step is saved, and its end is not, because its leader was killed in between.
func TestAskDecidesAboutAnUnfinishedStep(t *testing.T) {
	for answer, want := range map[string]struct {
		status checkpoint.Status
		ran    string
	}{
		`exit 0`: {checkpoint.Done, "x\n"}, `exit 1`: {checkpoint.Done, "x\nx\n"},
		`echo who knows >&2; exit 7`:               {checkpoint.Stopped, "x\n"},
		`echo '{"asked": true}' >$RINGFENCE_STATE`: {checkpoint.Done, "x\n"},
	} {
		t.Run(answer, func(t *testing.T) {
			b := newBench(t, "")
			text, _ := json.Marshal(answer)
			b.steps("steps: [{name: s, run: 'echo x >>ran; echo began; while [ ! -e go ]; do sleep 0.02; " +
				"done', unfinished: ask, ask: " + string(text) + "}]\n")
			first := b.run()
			first.out.Await(t, "began")
			first.signals <- syscall.SIGTERM
			first.exits(128 + 15)
			if cp := b.saved(); cp.Status != checkpoint.Started {
				t.Fatalf("got %+v", cp)
			}
			b.touch("go")
			code := cli.Done
			if want.status == checkpoint.Stopped {
				code = cli.Error
			}
			b.run().exits(code)
			cp := b.saved()
			if cp.Status != want.status || b.inDir("ran") != want.ran {
				t.Errorf("got %+v, ran %q", cp, b.inDir("ran"))
			}
			if cp.Failure != nil && !strings.Contains(cp.Failure.Message, "who knows") {
				t.Errorf("got %+v", cp.Failure)
			}
			if strings.Contains(answer, "asked") && string(cp.State) != `{"asked":true}` {
				t.Errorf("state %s", cp.State)
			}
		})
	}
}

func TestUnfinishedStopStopsTheTask(t *testing.T) {
	b := newBench(t, "steps: [{name: s, run: 'echo began; sleep 1000', unfinished: stop}]\n")
	first := b.run()
	first.out.Await(t, "began")
	first.signals <- syscall.SIGTERM
	first.exits(128 + 15)
	b.run().exits(cli.Error)
	if cp := b.saved(); cp.Status != checkpoint.Stopped {
		t.Errorf("got %+v", cp)
	}
}

func TestChangedStepsAreRefusedWithBothLists(t *testing.T) {
	b := newBench(t, "steps: [{name: a, run: 'true'}, {name: b, run: 'false'}]\n")
	b.run().exits(cli.Error)
	b.say(cli.Done, "task", "resume", "t")
	b.steps("steps: [{name: b, run: 'true'}]\n")
	l := b.run()
	l.exits(cli.Error)
	for _, want := range []string{"[a, b]", "[b]", "changed: accept"} {
		if !strings.Contains(l.log.String(), want) {
			t.Errorf("no %q in the log", want)
		}
	}
	b.steps("changed: accept\nsteps: [{name: b, run: 'true'}]\n")
	b.run().exits(cli.Done)
}

func TestEveryIsThePauseBetweenRounds(t *testing.T) {
	b := newBench(t, "rounds: 3\nevery: 200ms\nsteps: [{name: s, run: 'true'}]\n")
	start := time.Now()
	b.run().exits(cli.Done)
	if took := time.Since(start); took < 400*time.Millisecond {
		t.Errorf("three rounds took %s", took)
	}
	b = &bench{t: t, file: b.file, setup: b.setup}
	b.steps("rounds: forever\nevery: 1h\nchanged: restart\nsteps: [{name: u, run: 'echo round " +
		"$RINGFENCE_ROUND'}]\n")
	b.say(cli.Done, "task", "restart", "t")
	l := b.run()
	l.log.Await(t, "step has ended")
	l.signals <- syscall.SIGTERM // within the pause
	l.exits(128 + 15)
	if l.out.String() != "round 1\n" {
		t.Errorf("got %q", l.out)
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
