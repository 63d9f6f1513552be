package tasks

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/cmd/internal/cli"
)

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
