package inject

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
)

func TestEveryFaultThatHasBegunIsEnded(t *testing.T) {
	for _, c := range []struct {
		fault scenario.Fault
		want  []string
	}{
		{scenario.Fault{Do: scenario.Pause, On: "leader"}, []string{"pause worker-1", "resume worker-1"}},
		{scenario.Fault{Do: scenario.Kill, On: "postgres"}, []string{"kill postgres", "start postgres"}},
		{scenario.Fault{Do: scenario.Restart, On: "redis"}, []string{"stop redis", "start redis"}},
		{
			scenario.Fault{Do: scenario.Cut, On: "standby", Link: "guard"},
			[]string{"shape worker-2 guard", "heal worker-2 guard"},
		},
		{scenario.Fault{
			Do: scenario.Pause, On: "guard of leader",
		}, []string{"pause guard-1", "resume guard-1"}},
		{scenario.Fault{
			Do: scenario.Inside, On: "leader", With: []scenario.Fault{{Do: scenario.Pause, On: "leader"}},
		}, []string{
			"signal worker-1 user defined signal 1", "pause worker-1", "resume worker-1",
			"signal worker-1 user defined signal 2",
		}},
		{scenario.Fault{
			Do: scenario.Inside, On: "busy worker",
			With: []scenario.Fault{{Do: scenario.Pause, On: scenario.SameTarget}},
		}, []string{
			"signal worker-1 user defined signal 1", "pause worker-1", "resume worker-1",
			"signal worker-1 user defined signal 2",
		}},
		{scenario.Fault{
			Do: scenario.Stop, On: "leader", Then: []scenario.Fault{{Do: scenario.Kill, On: "guard-1"}},
		}, []string{
			"signal worker-1 stopped (signal)", "kill guard-1", "start guard-1",
			"signal worker-1 continued",
		}},
		{
			scenario.Fault{Do: scenario.Turn, On: "guard of leader", To: scenario.Postgres2},
			[]string{"turn guard-1 postgres-2", "turn guard-1 postgres"},
		},
		{
			scenario.Fault{Do: scenario.LoseEnds, On: "guard-1", Link: "postgres"},
			[]string{"shape guard-1 postgres", "heal guard-1 postgres"},
		},
		{
			scenario.Fault{Do: scenario.Clog, On: "guard of leader"},
			[]string{"clog guard-1", "unclog guard-1"},
		},
		{scenario.Fault{Do: scenario.Crash, On: "primary"}, []string{"crash postgres-1"}},
		{
			scenario.Fault{Do: scenario.Promote, On: scenario.Postgres3},
			[]string{"promote postgres-3"},
		},
		{scenario.Fault{Do: scenario.Pause, On: "standby",
			With: []scenario.Fault{{
				Do: scenario.Backup, On: "postgres",
			}, {Do: scenario.SwitchOver, On: "redis"}},
			Then: []scenario.Fault{{Do: scenario.Restore, On: "postgres"}}}, []string{
			"pause worker-2", "backup postgres", "switch over", "restore postgres",
			"resume worker-2",
		}},
	} {
		r, s := scripted()
		if err := r.Inject(within(t, patience), []scenario.Fault{c.fault}); err != nil ||
			!slices.Equal(s.calls, c.want) {
			t.Errorf("%s: %v, %q, want %q", c.fault, err, s.calls, c.want)
		}
		r, s = scripted()
		c.fault.For = time.Hour // the run is given up in the middle
		ctx, giveUp := context.WithCancel(within(t, patience))
		done := make(chan error, 1)
		go func() { done <- r.Inject(ctx, []scenario.Fault{c.fault}) }()
		s.until(t, c.want[0])
		giveUp()
		if err := <-done; err == nil || s.calls[len(s.calls)-1] != c.want[len(c.want)-1] {
			t.Errorf("%s, given up: %v, %q", c.fault, err, s.calls)
		}
		r, s = scripted()
		s.fails = c.want[0] // it may have been done nevertheless
		if err := r.Inject(within(t, patience), []scenario.Fault{c.fault}); err == nil ||
			s.calls[len(s.calls)-1] != c.want[len(c.want)-1] {
			t.Errorf("%s, failed: %v, %q", c.fault, err, s.calls)
		}
	}
}

func TestAnOverlappingFaultEndsOnceTheNextHasBegun(t *testing.T) {
	r, s := scripted()
	all := []scenario.Fault{
		{
			Do: scenario.Pause, On: "leader", Overlap: true,
		}, {Do: scenario.Kill, On: "guard-1", Overlap: true},
		{Do: scenario.Pause, On: "standby"},
	}
	want := []string{
		"pause worker-1", "kill guard-1", "resume worker-1", "pause worker-2", "start guard-1",
		"resume worker-2",
	}
	if err := r.Inject(within(t, patience), all); err != nil || !slices.Equal(s.calls, want) {
		t.Errorf("%v, %q, want %q", err, s.calls, want)
	}
	r, s = scripted()
	s.fails = "kill guard-1"
	want = []string{"pause worker-1", "kill guard-1", "start guard-1", "resume worker-1"}
	if err := r.Inject(within(t, patience), all); err == nil || !slices.Equal(s.calls, want) {
		t.Errorf("%v, %q, want %q", err, s.calls, want)
	}
}

func TestOneServerHasNoFollower(t *testing.T) {
	r, s := scripted()
	r.Topology.CoordinatorServers, s.leads = 1, "zookeeper-1"
	if got, err := r.resolve(within(t, patience), "coordinator follower"); err == nil {
		t.Errorf("the follower of one server: %v", got)
	}
	for range 200 {
		if f := r.draw(); f.On == "coordinator follower" {
			t.Fatalf("drawn with one server: %s", f)
		}
	}
}

func TestMajorityAndFollowers(t *testing.T) {
	r, _ := scripted()
	for on, want := range map[string][]string{
		"coordinator leader": {"zookeeper-2"}, "coordinator follower": {"zookeeper-1"},
		"coordinator majority": {"zookeeper-2", "zookeeper-1"},
		"coordinator":          {"zookeeper-1", "zookeeper-2", "zookeeper-3"},
	} {
		if got, err := r.resolve(within(t, patience), on); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", on, got, err)
		}
	}
}

func TestWorkersThatEndAreRestartedUnlessAFaultHasKilledThem(t *testing.T) {
	r, s := scripted()
	ctx, stop := context.WithCancel(within(t, patience))
	r.setDown("worker-2", true)
	r.ended("worker-2", "killed")
	r.ended("worker-1", "exit code 137")
	var supervisor sync.WaitGroup
	supervisor.Go(func() { r.Supervise(ctx) })
	s.until(t, "start worker-1")
	r.setDown("worker-2", false)
	r.rec.Note("lab", "something happens")
	stop()
	supervisor.Wait()
	if !slices.Equal(s.calls, []string{"start worker-1"}) {
		t.Errorf("%q", s.calls)
	}
}

func TestAKillWaitsForARestartInProgress(t *testing.T) {
	r, s := scripted()
	s.starting = make(chan struct{})
	ctx, stop := context.WithCancel(within(t, patience))
	var supervisor sync.WaitGroup
	supervisor.Go(func() { r.Supervise(ctx) })
	r.ended("worker-2", "exit code 137")
	s.until(t, "start worker-2")
	done := make(chan error, 1)
	go func() { done <- r.Inject(ctx, []scenario.Fault{{Do: scenario.Kill, On: "worker-2"}}) }()
	time.Sleep(50 * time.Millisecond)
	s.mu.Lock()
	if len(s.calls) > 1 {
		t.Errorf("during the restart: %q", s.calls)
	}
	s.mu.Unlock()
	close(s.starting)
	err := <-done
	stop()
	supervisor.Wait()
	if want := []string{"start worker-2", "kill worker-2", "start worker-2"}; err != nil ||
		!slices.Equal(s.calls, want) {
		t.Errorf("%v, %q, want %q", err, s.calls, want)
	}
}

func TestAStrayHasTheTokenOfThePreviousLeader(t *testing.T) {
	r, _ := scripted()
	f := []scenario.Fault{{Do: scenario.Stray, On: scenario.Neighbour, By: scenario.ByNeighbour}}
	if err := r.Inject(within(t, patience), f); err == nil ||
		!strings.Contains(err.Error(), "nobody has been deposed") {
		t.Errorf("the only leader strays: %v", err)
	}
	r.term("worker-2", history.Ready, 6)
	r.rec.Look(func(s *record.Seen) {
		if s.Deposed().Token != 5 || s.Term().Token != 6 {
			t.Errorf("deposed %v, leader %v", s.Deposed(), s.Term())
		}
	})
}

func TestOutcomesOfAStrayWrite(t *testing.T) {
	for want, err := range map[history.Outcome]error{
		history.OK:      nil,
		history.Stale:   fmt.Errorf("connect: %w", &pgconn.PgError{Code: "RF001"}),
		history.Refused: &pgconn.PgError{Code: "57P03"},
		history.Unknown: io.EOF,
	} {
		if got := outcome(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestHoldRunsFunctionsUntilRelease(t *testing.T) {
	r, _ := scripted()
	f := scenario.Fault{Do: scenario.Crowd, On: "guard-1"}
	begun, ended := make(chan struct{}, 100), make(chan struct{})
	r.hold(f, func(ctx context.Context) { begun <- struct{}{} }, func(ctx context.Context) {
		<-ctx.Done()
		close(ended)
	})
	for range 2 { // it is called again
		<-begun
	}
	r.release(f)
	select {
	case <-ended:
	default:
		t.Error("release does not wait")
	}
	r.release(f) // nothing is left
}

func TestOnlyAStoreIsFilled(t *testing.T) {
	r, _ := scripted()
	f := scenario.Fault{Do: scenario.Fill, On: "guard-1"}
	if err := r.Inject(within(t, patience), []scenario.Fault{f}); err == nil ||
		!strings.Contains(err.Error(), "there are postgres and redis") {
		t.Error(err)
	}
	if len(r.held) != 0 {
		t.Error("the fault did not end")
	}
}

// Every fault of the catalogue, and those that a mix is drawn from.
func TestFaultsAreSound(t *testing.T) {
	for _, one := range scenario.Catalogue {
		for _, f := range one.Faults {
			sound(t, one.Name, f)
		}
	}
	for _, f := range slices.Concat(scenario.RandomFaults, scenario.RandomJobFaults) {
		sound(t, "random-mix", f)
	}
}

func sound(t *testing.T, name string, f scenario.Fault) {
	t.Helper()
	linked := slices.Contains([]scenario.Action{
		scenario.Break, scenario.Cut, scenario.Hold, scenario.Slow, scenario.LoseEnds,
	}, f.Do)
	links := []string{"coordinator", "guard", "journal"}
	if strings.HasPrefix(f.On, "guard") {
		links = []string{"coordinator", "postgres", "redis"}
	}
	if linked != slices.Contains(links, f.Link) {
		t.Errorf("%s: %s with link %q", name, f, f.Link)
	}
	if (f.Do == scenario.Turn) != (f.To != "") || (f.Do == scenario.Stray) != (f.By != "") {
		t.Errorf("%s: to %q, by %q", name, f.To, f.By)
	}
	if f.Do == scenario.Hold && f.Direction != "up" && f.Direction != "down" {
		t.Errorf("%s: %s without a direction", name, f)
	}
	r, _ := scripted()
	if _, err := r.resolve(within(t, patience), f.On); err != nil {
		t.Errorf("%s: %s: %v", name, f, err)
	}
	for _, within := range slices.Concat(f.With, f.Then) {
		sound(t, name, within)
	}
}
