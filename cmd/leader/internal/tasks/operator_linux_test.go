package tasks

import (
	"strings"
	"syscall"
	"testing"

	"github.com/ringfence/ringfence/cmd/internal/cli"
)

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
