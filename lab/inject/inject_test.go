package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
	"github.com/ringfence/ringfence/lab/traffic"
)

// patience bounds the wait for something that has to happen.
const patience = 30 * time.Second

// script is a System that only records its calls.
type script struct {
	mu    sync.Mutex
	calls []string
	fails string // the call that fails
	leads string // the coordinator's server; zookeeper-2 when empty
	rec   *record.Recorder

	starting chan struct{} // Start returns once it is closed; may be nil
}

func (s *script) call(words ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(words, " ")
	s.calls = append(s.calls, text)
	if s.fails != "" && text == s.fails {
		return errors.New("as told")
	}
	return nil
}

// until waits for a call.
func (s *script) until(t *testing.T, what string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		done := slices.Contains(s.calls, what)
		s.mu.Unlock()
		if done {
			return
		}
	}
	t.Fatalf("there was no call %q: %q", what, s.calls)
}

func (s *script) Kill(_ context.Context, p string) error { return s.call("kill", p) }
func (s *script) Start(_ context.Context, p string) error {
	err := s.call("start", p)
	if s.starting != nil {
		<-s.starting
	}
	return err
}
func (s *script) Stop(_ context.Context, p string) error     { return s.call("stop", p) }
func (s *script) Pause(_ context.Context, p string) error    { return s.call("pause", p) }
func (s *script) Resume(_ context.Context, p string) error   { return s.call("resume", p) }
func (s *script) Wipe(context.Context) error                 { return s.call("wipe") }
func (s *script) Backup(_ context.Context, p string) error   { return s.call("backup", p) }
func (s *script) Restore(_ context.Context, p string) error  { return s.call("restore", p) }
func (s *script) SwitchOver(context.Context) error           { return s.call("switch over") }
func (s *script) Turn(_ context.Context, p, to string) error { return s.call("turn", p, to) }
func (s *script) Clog(_ context.Context, p string) error     { return s.call("clog", p) }
func (s *script) Unclog(_ context.Context, p string) error   { return s.call("unclog", p) }
func (s *script) Addresses() system.Addresses                { return system.Addresses{} }
func (s *script) Diagnose() string                           { return "" }
func (s *script) Close() error                               { return s.call("close") }
func (s *script) CoordinatorLeader(context.Context) (string, error) {
	return cmp.Or(s.leads, "zookeeper-2"), s.call("who leads")
}
func (s *script) Operator(_ context.Context, args ...string) (string, error) {
	return "", s.call(append([]string{"guard"}, args...)...)
}
func (s *script) Signal(_ context.Context, p string, sig syscall.Signal) error {
	if sig == syscall.SIGUSR1 {
		s.rec.Add(history.Event{
			Kind: history.Fault, Fault: string(scenario.Inside), State: history.Begin, Process: p,
		})
	}
	return s.call("signal", p, sig.String())
}
func (s *script) Shape(_ context.Context, p, peer string, shape system.Shape) error {
	if shape == (system.Shape{}) {
		return s.call("heal", p, peer)
	}
	return s.call("shape", p, peer)
}

// scripted returns a run on a script, in which worker-1 leads and worker-2 is a standby.
func scripted() (*Injector, *script) {
	rec := record.New(history.NewWriter(io.Discard))
	s := &script{rec: rec}
	r := New(scenario.Scenario{
		Topology: scenario.Topology{CoordinatorServers: 3, Guards: 2, Workers: 2},
	}, s, rec, 1)
	rec.Add(history.Event{Kind: history.Term, Process: "worker-1", State: history.Ready, Token: 5})
	rec.Add(history.Event{Kind: history.Term, Process: "worker-2", State: history.Standing})
	rec.Add(history.Event{
		Kind: history.Term, Process: "worker-1", State: history.Ready, Token: 6, Key: "a",
		Resource: "job_a",
	})
	rec.Add(history.Event{
		Kind: history.Term, Process: "worker-2", State: history.Ready, Token: 7,
		Resource: traffic.Assigner,
	})
	return r, s
}

func within(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

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

func TestAFaultWaitsForTheNextLeadersWrites(t *testing.T) {
	r, s := scripted()
	done := make(chan error, 1)
	go func() {
		f := scenario.Fault{Do: scenario.Pause, On: "leader", Until: scenario.NextLeader}
		done <- r.Inject(within(t, patience), []scenario.Fault{f})
	}()
	s.until(t, "pause worker-1")
	r.rec.Add(history.Event{Kind: history.Term, Process: "worker-2", State: history.Ready, Token: 6})
	for range 5 {
		r.rec.Add(history.Event{
			Kind: history.Return, Process: "worker-2/redis", Do: history.Write, Outcome: history.OK,
		})
	}
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	for range 50 {
		r.rec.Add(history.Event{
			Kind: history.Return, Process: "worker-2/redis", Do: history.Write, Outcome: history.OK,
		})
	}
	if err := <-done; err != nil || s.calls[len(s.calls)-1] != "resume worker-1" {
		t.Errorf("%v, %q", err, s.calls)
	}
}

func TestAFaultWaitsUntilTheLeaderGivesUpItsTerm(t *testing.T) {
	r, s := scripted()
	done := make(chan error, 1)
	go func() {
		f := scenario.Fault{Do: scenario.Pause, On: "workers", Until: scenario.GivenUp}
		done <- r.Inject(within(t, patience), []scenario.Fault{f})
	}()
	s.until(t, "pause worker-2")
	r.rec.Add(history.Event{Kind: history.Term, Process: "worker-2", State: history.Left, Token: 4})
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	r.rec.Add(history.Event{Kind: history.Term, Process: "worker-1", State: history.Left, Token: 5})
	if err := <-done; err != nil {
		t.Error(err)
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
	r.rec.Add(history.Event{Kind: history.Note, Process: "worker-2", Text: history.Ended + "killed"})
	r.rec.Add(history.Event{
		Kind: history.Note, Process: "worker-1", Text: history.Ended + "exit code 137",
	})
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

func TestAFaultWaitsForTheAttemptsOfAnother(t *testing.T) {
	for name, happens := range map[string]func(*Injector){
		"written": func(r *Injector) {
			for range 10 {
				r.rec.Add(history.Event{
					Kind: history.Return, Process: "worker-2/redis", Do: history.Write,
					Outcome: history.OK,
				})
			}
		},
		"refused": func(r *Injector) {
			r.rec.Add(history.Event{Kind: history.Term, Process: "worker-2", State: history.Standing})
		},
	} {
		r, s := scripted()
		r.rec.Add(history.Event{ // long before, and it keeps writing
			Kind: history.Term, Process: "worker-2", State: history.Won, Token: 4,
		})
		done := make(chan error, 1)
		f := []scenario.Fault{{Do: scenario.Pause, On: "leader", Until: scenario.Tried}}
		go func() { done <- r.Inject(within(t, patience), f) }()
		s.until(t, "pause worker-1")
		for range 10 { // the leader's own, before it stood still
			r.rec.Add(history.Event{
				Kind: history.Return, Process: "worker-1/redis", Do: history.Write,
				Outcome: history.OK,
			})
		}
		select {
		case err := <-done:
			t.Fatalf("%s: it did not wait: %v", name, err)
		case <-time.After(50 * time.Millisecond):
		}
		happens(r)
		if err := <-done; err != nil || s.calls[len(s.calls)-1] != "resume worker-1" {
			t.Errorf("%s: %v, %q", name, err, s.calls)
		}
	}
}

func TestAFaultWaitsForTermsAboveTheLastLeaders(t *testing.T) {
	won := func(r *Injector, tokens ...fence.Token) {
		for _, token := range tokens {
			r.rec.Add(history.Event{
				Kind: history.Term, Process: "worker-2", State: history.Won, Token: token,
			})
		}
	}
	r, s := scripted()
	r.rec.Add(history.Event{Kind: history.Term, Process: "worker-1", State: history.Ready, Token: 10})
	done := make(chan error, 1)
	f := []scenario.Fault{{Do: scenario.Pause, On: "worker-1", Until: scenario.Passed}}
	go func() { done <- r.Inject(within(t, patience), f) }()
	s.until(t, "pause worker-1")
	won(r, 8, 9, 10, 11, 12)
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	won(r, 13)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAKillWaitsForARestartInProgress(t *testing.T) {
	r, s := scripted()
	s.starting = make(chan struct{})
	ctx, stop := context.WithCancel(within(t, patience))
	var supervisor sync.WaitGroup
	supervisor.Go(func() { r.Supervise(ctx) })
	r.rec.Add(history.Event{
		Kind: history.Note, Process: "worker-2", Text: history.Ended + "exit code 137",
	})
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
	r.rec.Add(history.Event{Kind: history.Term, Process: "worker-2", State: history.Ready, Token: 6})
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
