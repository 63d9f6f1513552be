package tasks

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
)

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
