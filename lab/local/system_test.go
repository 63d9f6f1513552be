package local

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

func TestASystemComesUp(t *testing.T) {
	s, h := built(t, func(b *system.Build) { b.Topology.PGSettings = []string{"work_mem=5MB"} })
	ctx := limited(t)
	t.Setenv("GUARD_LOG", "debug") // must not reach a worker
	must.Succeed(t, s.Start(ctx, "worker-1"))
	eventually(t, "a tick", func() bool { return len(h.texts("worker-1", "tick")) > 0 })
	if len(h.texts("worker-1", "not an event: this is no event")) != 1 {
		t.Error("a line that is not an event was not noted")
	}
	environ := h.texts("worker-1", "environ")[0]
	for _, part := range []string{
		"LAB_NAME=worker-1", "LAB_SESSION=10s", "PATH=/", "LAB_COORDINATOR=zk://127.0.0.1:",
		"LAB_WORLD=postgres://app@" + s.pg.Addr(),
	} {
		if !strings.Contains(environ, part) {
			t.Errorf("%s is not in %s", part, environ)
		}
	}
	if strings.Contains(environ, "GUARD_") {
		t.Error("a guard's setting is in", environ)
	}
	noToken(t, ctx, s)
	status(t, ctx, s)
	if name, err := s.CoordinatorLeader(ctx); name != "zookeeper-1" || err != nil {
		t.Error(name, err)
	}
	var start, workMem string
	c := superuser(t, ctx, s)
	sql := "select lsn::text, current_setting('work_mem') from log_start"
	err := c.QueryRow(ctx, sql).Scan(&start, &workMem)
	if err != nil || start == "" || workMem != "5MB" {
		t.Error(start, workMem, err)
	}
	for _, part := range []string{"guard-1:", "worker-1:", "postgres:", "redis:", "zookeeper-1:"} {
		if !strings.Contains(s.Diagnose(), part) {
			t.Errorf("%s is missing in Diagnose", part)
		}
	}
	must.Report(t, s.Stop(ctx, "worker-1"))
	eventually(t, "its last event", func() bool { return len(h.texts("worker-1", "goodbye")) == 1 })
	if ended := h.texts("worker-1", history.Ended); len(ended) > 0 {
		t.Errorf("the lab has stopped it, but the note says %v", ended)
	}
}

func TestOnlyTheFirstStartHasTheFailpoint(t *testing.T) {
	s, h := built(t, func(b *system.Build) {
		b.Topology.Workers = 2
		b.Workload.Failpoints = map[string]string{"worker-1": "after effect:3"}
	})
	ctx := limited(t)
	for _, name := range []string{"worker-1", "worker-2"} {
		if err := s.Start(ctx, name); err != nil && name != "worker-1" {
			t.Fatal(err) // worker-1 may have ended before Start returns
		}
	}
	count := func(text string) int { return len(h.texts("worker-1", text)) }
	killed := history.Ended + "exit code 137"
	eventually(t, "its end", func() bool { return count(killed) == 1 })
	eventually(t, "its failpoint", func() bool { return count("failpoint after effect:3") == 1 })
	if len(h.texts("worker-2", "failpoint")) != 0 {
		t.Error("worker-2 has the failpoint of worker-1")
	}
	must.Succeed(t, s.Start(ctx, "worker-1"))
	eventually(t, "a tick of the second start", func() bool { return count("tick") > 0 })
	must.Succeed(t, s.Signal(ctx, "worker-1", syscall.SIGKILL))
	eventually(t, "its second end", func() bool { return count(killed) == 2 })
}

func TestALeaderOfACommandIsPausedWithItsDescendants(t *testing.T) {
	s, h := built(t, func(b *system.Build) {
		b.Workload = scenario.Workload{Kind: scenario.Commands, Child: "fork"}
	})
	ctx := limited(t)
	must.Succeed(t, s.Start(ctx, "worker-1"))
	ticks := func() bool { return len(h.texts("worker-1", "tick")) > 0 }
	eventually(t, "a tick of the command", ticks)
	must.Succeed(t, s.Pause(ctx, "worker-1"))
	paused := history.Now()
	settle(ctx)
	if h.ticked("worker-1", paused) {
		t.Error("the command of a paused leader has ticked")
	}
	must.Succeed(t, s.Resume(ctx, "worker-1"))
	eventually(t, "a tick after that", func() bool { return h.ticked("worker-1", paused) })

	// The process that the command has forked outlives the leader, and Close finds it.
	var orphan int
	_, err := fmt.Sscanf(h.texts("worker-1", "forked")[0], "forked %d", &orphan)
	must.Succeed(t, err)
	must.Succeed(t, s.Signal(ctx, "worker-1", syscall.SIGKILL))
	killed := func() bool { return len(h.texts("worker-1", history.Ended+"exit code 137")) == 1 }
	eventually(t, "its end", killed)
	if !alive(orphan) {
		t.Error("the forked process did not outlive the leader: this test shows nothing")
	}
	closeClean(t, s)
	if alive(orphan) {
		t.Error("the forked process outlives the lab")
	}
}

func TestRoutesThatBypassTheGuard(t *testing.T) {
	s, _ := built(t, func(b *system.Build) {
		b.Topology.Route, b.Topology.Guards = scenario.Direct, 0
	})
	ctx := limited(t)
	c := pgtest.Connect(t, s.asApp(s.links[ends{"worker-1", "guard"}][0].Addr()))
	if _, err := c.Exec(ctx, "insert into ledger (op, token) values ('a', 1)"); err != nil {
		t.Error(err)
	}
	d, err := net.Dial("tcp", s.links[ends{"worker-1", "guard"}][1].Addr())
	must.Succeed(t, err)
	defer d.Close()
	send(t, d, "PING\r\n")
	arrives(t, d, "+PONG\r\n")
}

func TestThePathSQLLeadsThroughAPooler(t *testing.T) {
	s, _ := built(t, func(b *system.Build) {
		paused, _ := scenario.Find("leader-paused")
		paused, _ = paused.OverSQL()
		b.Topology = paused.Topology
	})
	ctx := limited(t)
	leads := func(peer string) (role string, ready bool) {
		t.Helper()
		c, err := pgx.Connect(ctx, s.asApp(s.links[ends{"worker-1", peer}][0].Addr())+
			"&default_query_exec_mode=exec")
		must.Succeed(t, err)
		defer c.Close(ctx)
		err = c.QueryRow(ctx, "select session_user, ready from ringfence.campaign('orders'::text, "+
			"'worker-1')").Scan(&role, &ready)
		must.Succeed(t, err)
		return role, ready
	}
	for _, peer := range []string{"coordinator", "guard"} {
		if role, ready := leads(peer); role != "app" || !ready {
			t.Errorf("the link %s leads to role %s, ready %t", peer, role, ready)
		}
	}
	must.Succeed(t, s.Kill(ctx, scenario.Pooler))
	if _, err := pgx.Connect(ctx, s.asApp(s.links[ends{"worker-1", "guard"}][0].Addr())); err == nil {
		t.Error("the link bypasses the pooler")
	}
	must.Succeed(t, s.Start(ctx, scenario.Pooler))
	if _, ready := leads("guard"); !ready {
		t.Error("it does not lead after the pooler's restart")
	}
	if name, err := s.CoordinatorLeader(ctx); name != "postgres" || err != nil {
		t.Errorf("the coordinator is %s: %v", name, err)
	}
	status(t, ctx, s)
}

func TestTextsAreSortedAnew(t *testing.T) {
	s, _ := built(t, func(b *system.Build) { b.Topology.OwnLocale = true })
	ctx := limited(t)
	first := func() (name string) {
		conn, err := pgx.Connect(ctx, s.Addresses().Postgres)
		must.Succeed(t, err)
		defer conn.Close(ctx)
		if err := conn.QueryRow(ctx,
			"select min(name) from unnest(array['aa', 'z']) as u(name)").Scan(&name); err != nil {
			t.Fatal(err)
		}
		return name
	}
	before := first()
	must.Succeed(t, s.SortAnew(ctx))
	if after := first(); before != "aa" || after != "z" {
		t.Errorf("%q came first, and then %q", before, after)
	}
}

// The database vouches for the flawed guard, as lab.Run makes it do: otherwise no leader would
// begin to write, and no flaw could show.
func TestALeaderAcceptsAFlawedGuard(t *testing.T) {
	s, _ := built(t, func(b *system.Build) { b.Topology.GuardFlaw = string(flaw.Observe) })
	ctx := limited(t)
	must.Succeed(t, system.Exec(ctx, s.Addresses().Postgres, flaw.Vouch))
	url := s.asApp(s.links[ends{"worker-1", "guard"}][0].Addr())
	old := pgtest.Connect(t, url+"&options=-c%20fence.orders%3D5")
	claim := fence.Claim{Resource: scenario.Resource, Token: 7}
	must.Report(t, pgmarks.NewRaiser(url).Raise(ctx, claim))
	if err := old.Ping(ctx); err != nil {
		t.Error("a guard that observes only has ended a session:", err)
	}
}

func TestAFailedBuildLeavesNothing(t *testing.T) {
	b := system.Build{
		Topology: scenario.Topology{CoordinatorServers: 1, Guards: 1, GuardFlaw: "no such flaw"},
		Dir:      t.TempDir(), Programs: programs, Events: func(history.Event) {},
	}
	_, err := Build(limited(t), b)
	if err == nil || !strings.Contains(err.Error(), "no such flaw") {
		t.Errorf("built with an unknown flaw: %v", err)
	}
}
