package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	pgstore "github.com/ringfence/ringfence/store/postgres"
)

// heard is what workers have said.
type heard struct {
	mu  sync.Mutex
	all []history.Event
}

func (h *heard) take(e history.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, e)
}

// texts of a worker's events that begin so.
func (h *heard) texts(worker, prefix string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, e := range h.all {
		if e.Process == worker && strings.HasPrefix(e.Text, prefix) {
			all = append(all, e.Text)
		}
	}
	return all
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// alive says whether a process runs that is no zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 100*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// built is a system with stand-ins for workers. It is closed with the test, and then nothing of it may be left.
func built(t *testing.T, change func(*lab.Build)) (*System, *heard) {
	t.Helper()
	h := &heard{}
	b := lab.Build{
		Topology: lab.Topology{ZooKeepers: 1, Guards: 1, Workers: 1, Session: time.Second},
		Dir:      t.TempDir(), Programs: programs, Events: h.take,
	}
	if change != nil {
		change(&b)
	}
	s, err := Build(limited(t), b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(s.Diagnose())
		}
		closeClean(t, s)
	})
	return s, h
}

func closeClean(t *testing.T, s *System) {
	t.Helper()
	var pids []int
	for _, p := range s.processes {
		if pid := p.PID(); pid != 0 {
			pids = append(pids, pid)
		}
	}
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Error("close:", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("Close took %v", took)
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d lives on", pid)
		}
	}
	if left := s.brand.branded(); len(left) > 0 {
		t.Errorf("processes %v live on", left)
	}
}

func TestASystemComesUp(t *testing.T) {
	s, h := built(t, func(b *lab.Build) { b.Topology.PGSettings = []string{"work_mem=5MB"} })
	ctx := limited(t)
	t.Setenv("GUARD_LOG", "debug") // nothing of ours gets into a worker
	if err := s.Start(ctx, "worker-1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a tick", func() bool { return len(h.texts("worker-1", "tick")) > 0 })
	if len(h.texts("worker-1", "said what is no event: this is no event")) != 1 {
		t.Error("a line that is no event was not noted")
	}
	environ := h.texts("worker-1", "environ")[0]
	for _, part := range []string{"LAB_NAME=worker-1", "LAB_SESSION=1s", "PATH=/", "LAB_COORDINATOR=zk://127.0.0.1:", "LAB_WORLD=postgres://app@" + s.pg.Addr()} {
		if !strings.Contains(environ, part) {
			t.Errorf("%s is not in %s", part, environ)
		}
	}
	if strings.Contains(environ, "GUARD_") {
		t.Error("a guard's setting is in", environ)
	}
	noToken(t, ctx, s)
	status(t, ctx, s)
	if name, err := s.ZooKeeperLeader(ctx); name != "zookeeper-1" || err != nil {
		t.Error(name, err)
	}
	var slot, workMem string
	c := superuser(t, ctx, s)
	if err := c.QueryRow(ctx, `select slot_name, current_setting('work_mem') from pg_replication_slots`).Scan(&slot, &workMem); err != nil || slot != "lab" || workMem != "5MB" {
		t.Error(slot, workMem, err)
	}
	for _, part := range []string{"guard-1:", "worker-1:", "postgres:", "redis:", "zookeeper-1:"} {
		if !strings.Contains(s.Diagnose(), part) {
			t.Errorf("%s is not diagnosed", part)
		}
	}
	if err := s.Stop(ctx, "worker-1"); err != nil {
		t.Error(err)
	}
	eventually(t, "its last word", func() bool { return len(h.texts("worker-1", "goodbye")) == 1 })
	if ended := h.texts("worker-1", lab.Ended); len(ended) > 0 {
		t.Errorf("the lab has stopped it, and it is said that it %v", ended)
	}
}

func superuser(t *testing.T, ctx context.Context, s *System) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(ctx, s.Addresses().Postgres)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// noToken shows that the worker's link leads to the guard.
func noToken(t *testing.T, ctx context.Context, s *System) {
	t.Helper()
	_, err := pgx.Connect(ctx, asApp(s.links[ends{"worker-1", "guard"}][0].Addr()))
	if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || !strings.HasPrefix(pg.Code, "RF") {
		t.Errorf("a session without a token: %v", err)
	}
}

func status(t *testing.T, ctx context.Context, s *System) {
	t.Helper()
	out, err := s.Operator(ctx, "status", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var stores []struct {
		Store string
		Ready bool
	}
	if err := json.Unmarshal([]byte(out), &stores); err != nil || len(stores) != 2 || !stores[0].Ready || !stores[1].Ready {
		t.Errorf("status: %v\n%s", err, out)
	}
	if _, err := s.Operator(ctx, "protect"); err == nil || !strings.Contains(err.Error(), "not a subcommand") {
		t.Errorf("an operator's mistake: %v", err)
	}
}

// probes tell of each kind of process whether it answers now.
func probes(s *System, h *heard) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"postgres": func(ctx context.Context) error {
			c, err := pgx.Connect(ctx, s.Addresses().Postgres)
			if err != nil {
				return err
			}
			return c.Close(ctx)
		},
		"redis": func(ctx context.Context) error {
			o, err := driver.ParseURL(s.Addresses().Redis)
			if err != nil {
				return err
			}
			o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries = true, -1, 1
			db := driver.NewClient(o)
			defer db.Close()
			return db.Ping(ctx).Err()
		},
		"zookeeper-1": func(ctx context.Context) error {
			if !(lab.Server{Address: s.zk.Nodes[0].Addr()}).Leads(ctx) {
				return errors.New("no answer")
			}
			return nil
		},
		"guard-1": func(ctx context.Context) error {
			return ready(ctx, "http://"+s.guards["guard-1"].http+"/livez")
		},
		"worker-1": func(ctx context.Context) error {
			settle(ctx) // what was in the pipe
			before := len(h.texts("worker-1", "tick"))
			for len(h.texts("worker-1", "tick")) == before {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Millisecond):
				}
			}
			return nil
		},
	}
}

func settle(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
}

// subject is a process that is hit.
type subject struct {
	t    *testing.T
	s    *System
	name string
	ask  func(context.Context) error
}

func (u *subject) asked(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.t.Context()), limit)
	defer cancel()
	return u.ask(ctx)
}

func (u *subject) up(when string) {
	u.t.Helper()
	if err := u.asked(20 * time.Second); err != nil {
		u.t.Errorf("%s does not answer %s: %v", u.name, when, err)
	}
}

func (u *subject) down(when string) {
	u.t.Helper()
	if err := u.asked(500 * time.Millisecond); err == nil {
		u.t.Errorf("%s answers %s", u.name, when)
	}
}

func (u *subject) must(do func(context.Context, string) error) {
	u.t.Helper()
	if err := do(limited(u.t), u.name); err != nil {
		u.t.Fatal(err)
	}
}

func (u *subject) signal(sig syscall.Signal) func(context.Context, string) error {
	return func(ctx context.Context, name string) error { return u.s.Signal(ctx, name, sig) }
}

// hit does everything to it in turn.
func (u *subject) hit() {
	u.t.Helper()
	u.up("at first")
	u.must(u.s.Pause)
	u.down("while it is paused")
	u.must(u.s.Resume)
	u.up("after it was resumed")
	u.must(u.signal(syscall.SIGSTOP))
	if u.name != "postgres" { // its backends go on
		eventually(u.t, u.name+" standing still", func() bool { return u.asked(300*time.Millisecond) != nil }) // a signal takes its time
	}
	u.must(u.signal(syscall.SIGCONT))
	u.up("after it was continued")
	u.must(u.s.Pause)
	u.must(u.s.Kill)
	u.down("after it was killed")
	if err := u.s.Signal(limited(u.t), u.name, syscall.SIGCONT); err == nil {
		u.t.Errorf("%s is gone and takes a signal", u.name)
	}
	u.must(u.s.Start)
	u.up("after it was started again")
}

func TestEachKindOfProcessIsPausedAndKilled(t *testing.T) {
	s, h := built(t, nil)
	if err := s.Start(limited(t), "worker-1"); err != nil {
		t.Fatal(err)
	}
	for name, ask := range probes(s, h) {
		u := &subject{t, s, name, ask}
		u.hit()
		defer u.must(s.Pause) // Close ends what is paused, too
	}
	if ended := h.texts("worker-1", lab.Ended); len(ended) > 0 {
		t.Errorf("the lab has killed it, and it is said that it %v", ended)
	}
}

func TestUnknownNamesAreErrors(t *testing.T) {
	s, _ := built(t, nil)
	if err := s.Kill(t.Context(), "worker-9"); err == nil || !strings.Contains(err.Error(), "guard-1") {
		t.Error(err)
	}
	if err := s.Shape(t.Context(), "guard-1", "journal", lab.Shape{}); err == nil {
		t.Error("a link that there is not was shaped")
	}
}

func TestWipeMakesAnotherCoordinator(t *testing.T) {
	s, _ := built(t, nil)
	ctx := limited(t)
	issuer := func() string {
		co, err := zookeeper.Open(ctx, s.Addresses().Coordinator, zookeeper.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer co.Close()
		is, err := co.Issuer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return string(is)
	}
	before := issuer()
	if again := issuer(); again != before {
		t.Fatalf("issuer %s became %s", before, again)
	}
	if err := s.Wipe(ctx); err != nil {
		t.Fatal(err)
	}
	if after := issuer(); after == before {
		t.Errorf("the wiped coordinator is still %s", after)
	}
}

func TestAnEnsembleHasALeaderThatCanBeKilled(t *testing.T) {
	s, _ := built(t, func(b *lab.Build) { b.Topology.ZooKeepers, b.Topology.Guards = 3, 2 })
	ctx := limited(t)
	first, err := s.ZooKeeperLeader(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Kill(ctx, first); err != nil {
		t.Fatal(err)
	}
	second, err := s.ZooKeeperLeader(ctx)
	if err != nil || second == first {
		t.Fatalf("%s was killed, and %s leads: %v", first, second, err)
	}
	if err := s.Start(ctx, first); err != nil {
		t.Error(err)
	}
	if n := len(s.links[ends{"guard-2", "coordinator"}]); n != 3 {
		t.Errorf("guard-2 has %d links to the coordinator", n)
	}
}

func TestALinkOfAWorkerIsCut(t *testing.T) {
	s, _ := built(t, nil)
	ctx := limited(t)
	url := asApp(s.links[ends{"worker-1", "journal"}][0].Addr())
	open, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close(ctx)
	if err := s.Shape(ctx, "worker-1", "journal", lab.Shape{HoldUp: true, HoldDown: true, Refuse: true}); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := open.Exec(ctx, "insert into world (key, token) values ('late', 1)")
		written <- err
	}()
	bounded, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if _, err := pgx.Connect(bounded, url); err == nil {
		t.Error("a connection was made over a link that is cut")
	}
	noToken(t, ctx, s) // the other links are as they were
	select {
	case err := <-written:
		t.Fatalf("a write over a link that is cut: %v", err)
	default:
	}
	if err := s.Shape(ctx, "worker-1", "journal", lab.Shape{}); err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

func TestAGuardIsCutFromTheCoordinator(t *testing.T) {
	s, _ := built(t, nil)
	ctx := limited(t)
	connect := func(limit time.Duration) error {
		bounded, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		url := asApp(s.guards["guard-1"].postgres) + "&options=-c%20fence.orders%3D1"
		_, err := pgx.Connect(bounded, url)
		if err == nil {
			t.Fatal("an invented token was let in")
		}
		return err
	}
	if err := connect(20 * time.Second); !strings.Contains(err.Error(), "does not lead") {
		t.Fatal(err)
	}
	if err := s.Shape(ctx, "guard-1", "coordinator", lab.Shape{HoldUp: true, HoldDown: true, Refuse: true}); err != nil {
		t.Fatal(err)
	}
	if err := connect(2 * time.Second); strings.Contains(err.Error(), "does not lead") {
		t.Errorf("the guard is cut from the coordinator, and has asked it: %v", err)
	}
	if err := s.Shape(ctx, "guard-1", "coordinator", lab.Shape{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the coordinator's word", func() bool { return strings.Contains(connect(20*time.Second).Error(), "does not lead") })
}

func TestAFailpointIsForTheFirstStart(t *testing.T) {
	s, h := built(t, func(b *lab.Build) {
		b.Topology.Workers = 2
		b.Workload.Failpoints = map[string]string{"worker-1": "after effect:3"}
	})
	ctx := limited(t)
	for _, name := range []string{"worker-1", "worker-2"} {
		if err := s.Start(ctx, name); err != nil && name != "worker-1" {
			t.Fatal(err) // worker-1 may have ended before it was looked at
		}
	}
	eventually(t, "the word of its end", func() bool { return len(h.texts("worker-1", lab.Ended+"exit code 137")) == 1 })
	if len(h.texts("worker-1", "failpoint after effect:3")) != 1 || len(h.texts("worker-2", "failpoint")) != 0 {
		t.Error("the failpoint was not the first worker's alone")
	}
	if err := s.Start(ctx, "worker-1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a tick of the second start", func() bool { return len(h.texts("worker-1", "tick")) > 0 })
	if err := s.Signal(ctx, "worker-1", syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the word of its second end", func() bool { return len(h.texts("worker-1", lab.Ended+"exit code 137")) == 2 })
}

func TestALeaderOfACommandIsPausedWithItsFamily(t *testing.T) {
	s, h := built(t, func(b *lab.Build) { b.Workload = lab.Workload{Kind: lab.Commands, Child: "fork"} })
	ctx := limited(t)
	if err := s.Start(ctx, "worker-1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a tick of the command", func() bool { return len(h.texts("worker-1", "tick")) > 0 })
	if err := s.Pause(ctx, "worker-1"); err != nil {
		t.Fatal(err)
	}
	settle(ctx)
	before := len(h.texts("worker-1", "tick"))
	settle(ctx)
	if after := len(h.texts("worker-1", "tick")); after != before {
		t.Errorf("the command of a paused leader has ticked %d times", after-before)
	}
	if err := s.Resume(ctx, "worker-1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a tick after that", func() bool { return len(h.texts("worker-1", "tick")) > before })

	// What the command has forked outlives a leader that is killed alone, and Close finds it.
	var orphan int
	if _, err := fmt.Sscanf(h.texts("worker-1", "forked")[0], "forked %d", &orphan); err != nil {
		t.Fatal(err)
	}
	if err := s.Signal(ctx, "worker-1", syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the word of its end", func() bool { return len(h.texts("worker-1", lab.Ended+"exit code 137")) == 1 })
	if !alive(orphan) {
		t.Error("what the command has forked did not outlive the leader: this test shows nothing")
	}
	closeClean(t, s)
	if alive(orphan) {
		t.Error("what the command has forked outlives the lab")
	}
}

func TestRoutesRoundTheGuard(t *testing.T) {
	s, _ := built(t, func(b *lab.Build) { b.Topology.Route, b.Topology.Guards = lab.Direct, 0 })
	ctx := limited(t)
	c, err := pgx.Connect(ctx, asApp(s.links[ends{"worker-1", "guard"}][0].Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, "insert into ledger (op, token) values ('a', 1)"); err != nil {
		t.Error(err)
	}
	d, err := net.Dial("tcp", s.links[ends{"worker-1", "guard"}][1].Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	send(t, d, "PING\r\n")
	arrives(t, d, "+PONG\r\n")
}

// TestALeaderTakesAFlawedGuardForAGuard once the database vouches for it, as lab.Run has it do: otherwise no leader would begin
// to write, and no flaw could show.
func TestALeaderTakesAFlawedGuardForAGuard(t *testing.T) {
	s, _ := built(t, func(b *lab.Build) { b.Topology.GuardFlaw = string(flaw.Observe) })
	ctx := limited(t)
	if err := s.asSuperuser(ctx, flaw.Vouch); err != nil {
		t.Fatal(err)
	}
	url := asApp(s.links[ends{"worker-1", "guard"}][0].Addr())
	old, err := pgx.Connect(ctx, url+"&options=-c%20fence.orders%3D5")
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close(ctx)
	if err := pgstore.NewRaiser(url).Raise(ctx, fence.Claim{Resource: lab.Resource, Token: 7}); err != nil {
		t.Error(err)
	}
	if err := old.Ping(ctx); err != nil {
		t.Error("a guard that observes only has ended a session:", err)
	}
}

func TestAFailedBuildLeavesNothing(t *testing.T) {
	b := lab.Build{
		Topology: lab.Topology{ZooKeepers: 1, Guards: 1, GuardFlaw: "no such flaw"},
		Dir:      t.TempDir(), Programs: programs, Events: func(history.Event) {},
	}
	_, err := Build(limited(t), b)
	if err == nil || !strings.Contains(err.Error(), "no such flaw") {
		t.Errorf("built with an unknown flaw: %v", err)
	}
}
