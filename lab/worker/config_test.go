package worker

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
)

func TestEveryProblemWithTheSettingsIsNamed(t *testing.T) {
	_, err := Load([]string{
		"LAB_NAME=worker-1", "LAB_POSTGRES=postgres://db", "LAB_SESSION=soon", "LAB_KIND=tasks",
		"LAB_ROUTE=by air", "LAB_MANNERS=bad",
		"LAB_FAILPOINT=after lunch:1", "LAB_CHILD=twins", "LAB_FLAW=memory-mark",
	})
	if err == nil {
		t.Fatal("nothing is wrong")
	}
	for _, name := range []string{"LAB_COORDINATOR", "LAB_REDIS", "Session", "LAB_ROUTE",
		"LAB_MANNERS", "LAB_FAILPOINT", "LAB_CHILD", "LAB_FLAW",
		"LAB_JOURNAL", "LAB_ROUNDS"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

func TestValidSettingsAreLoaded(t *testing.T) {
	c, err := Load([]string{
		"LAB_NAME=worker-1", "LAB_COORDINATOR=zk://zk", "LAB_POSTGRES=postgres://db",
		"LAB_REDIS=redis://cache", "LAB_FAILPOINT=after effect:3", "LAB_KIND=commands",
		"RINGFENCE_TOKEN=9007199254740993",
	})
	if err != nil {
		t.Fatal(err)
	}
	if place, step, err := c.failpoint(); place != "after effect" || step != 3 || err != nil {
		t.Error(place, step, err)
	}
	if c.Pause != 5*time.Millisecond || c.Route != scenario.Guarded || c.Token != 9007199254740993 {
		t.Errorf("%+v", c)
	}
}

func TestLogLinesDescribeTheEvents(t *testing.T) {
	var out bytes.Buffer
	emit, stop := newEmitter(Config{Log: true}, &out)
	emit(history.Event{Kind: history.Term, State: history.Ready, Process: "worker-2", Token: 45})
	for range 3 {
		emit(history.Event{
			Kind: history.Return, Do: history.Write, Store: "redis", Outcome: history.OK,
		})
	}
	emit(history.Event{
		Kind: history.Return, Do: history.Write, Store: "postgres", Outcome: history.Stale,
		Text: "RF001 stale token: 45 is older than the mark 46",
	})
	stop()
	for _, want := range []string{
		"worker-2 leads with token 45", "postgres=0 redis=", "total=3",
		"refused: RF001 stale token",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestAWorkerIsHealthyOnceItHasReachedTheCoordinator(t *testing.T) {
	s := newStage(t)
	c := s.config("worker-1")
	free := serverstest.FreeAddresses(t, 2)
	c.HTTPListen, c.Coordinator = free[0], "zk://"+free[1]
	unhealthy := s.start(c)
	s.await("it listens", func() bool {
		err := Healthy(s.ctx, c.HTTPListen)
		return err != nil && strings.Contains(err.Error(), "503")
	})
	unhealthy.stop()
	c.Coordinator = s.coordinatorURL()
	healthy := s.process(c)
	s.await("it is healthy", func() bool {
		return Healthy(context.Background(), c.HTTPListen) == nil
	})
	probe := s.program("worker", "-health")
	probe.Env = append(probe.Env, "LAB_HTTP_LISTEN="+c.HTTPListen)
	if out, err := probe.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	healthy.stop()
	probe = s.program("worker", "-health")
	probe.Env = append(probe.Env, "LAB_HTTP_LISTEN="+c.HTTPListen)
	if err := probe.Run(); err == nil || probe.ProcessState.ExitCode() != 1 {
		t.Errorf("after the end of the worker: %v", err)
	}
}
