package worker

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/servers/serverstest"
	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/history"
)

func TestEveryProblemWithTheSettingsIsNamed(t *testing.T) {
	_, err := Load([]string{
		"LAB_NAME=worker-1", "LAB_POSTGRES=postgres://db", "LAB_SESSION=soon", "LAB_KIND=tasks", "LAB_ROUTE=by air", "LAB_MANNERS=bad",
		"LAB_FAILPOINT=after lunch:1", "LAB_CHILD=twins", "LAB_FLAW=memory-mark",
	})
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, name := range []string{"LAB_COORDINATOR", "LAB_REDIS", "Session", "LAB_ROUTE", "LAB_MANNERS", "LAB_FAILPOINT", "LAB_CHILD", "LAB_FLAW",
		"LAB_JOURNAL", "LAB_ROUNDS"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("nothing is said of %s: %v", name, err)
		}
	}
}

func TestSettingsThatAreRight(t *testing.T) {
	c, err := Load([]string{"LAB_NAME=worker-1", "LAB_COORDINATOR=zk://zk", "LAB_POSTGRES=postgres://db", "LAB_REDIS=redis://cache",
		"LAB_FAILPOINT=after effect:3", "LAB_KIND=commands", "RINGFENCE_TOKEN=9007199254740993"})
	if err != nil {
		t.Fatal(err)
	}
	if place, step, err := c.failpoint(); place != "after effect" || step != 3 || err != nil {
		t.Error(place, step, err)
	}
	if c.Pause != 5*time.Millisecond || c.Route != lab.Guarded || c.Token != 9007199254740993 {
		t.Errorf("%+v", c)
	}
}

func TestLogLinesTellTheStory(t *testing.T) {
	var out bytes.Buffer
	say, stop := speak(Config{Log: true}, &out)
	say(history.Event{Kind: history.Term, State: history.Ready, Process: "worker-2", Token: 45})
	for range 3 {
		say(history.Event{Kind: history.Return, Do: history.Write, Store: "redis", Outcome: history.OK})
	}
	say(history.Event{Kind: history.Return, Do: history.Write, Store: "postgres", Outcome: history.Stale, Text: "RF001 stale token: 45 is older than the mark 46"})
	stop()
	for _, want := range []string{"worker-2 leads with token 45", "postgres=0 redis=", "total=3", "refused: RF001 stale token"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing of %q in\n%s", want, out.String())
		}
	}
}

func TestAWorkerIsWellOnceItHasReachedTheCoordinator(t *testing.T) {
	s := newStage(t)
	c := s.config("worker-1")
	free := serverstest.FreeAddresses(t, 2)
	c.HTTPListen, c.Coordinator = free[0], "zk://"+free[1]
	ill := s.start(c)
	s.await("it listens", func() bool {
		err := Healthy(s.ctx, c.HTTPListen)
		return err != nil && strings.Contains(err.Error(), "503")
	})
	ill.stop()
	c.Coordinator = s.coordinatorURL()
	well := s.process(c)
	s.await("it is well", func() bool { return Healthy(context.Background(), c.HTTPListen) == nil })
	ask := s.program("worker", "-health")
	ask.Env = append(ask.Env, "LAB_HTTP_LISTEN="+c.HTTPListen)
	if out, err := ask.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	well.stop()
	ask = s.program("worker", "-health")
	ask.Env = append(ask.Env, "LAB_HTTP_LISTEN="+c.HTTPListen)
	if err := ask.Run(); err == nil || ask.ProcessState.ExitCode() != 1 {
		t.Errorf("of a worker that has ended: %v", err)
	}
}
