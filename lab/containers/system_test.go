package containers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

func stale(e history.Event) bool { return e.Kind == history.Return && e.Outcome == history.Stale }

// It hits one system with every fault, because it takes long to build.
func TestEveryFaultInContainers(t *testing.T) {
	events := newRecorded()
	s := build(t, system.Build{
		Topology: scenario.Topology{CoordinatorServers: 3, Guards: 2, Workers: 3, Session: time.Second},
		Workload: scenario.Workload{Pause: 20 * time.Millisecond}, Events: events.add,
	})
	ctx := t.Context()
	for _, w := range s.build.Topology.WorkerNames() {
		must.Succeed(t, s.Start(ctx, w))
	}
	events.leader(t)

	for _, fault := range []struct {
		name string
		hit  func(*testing.T, *System, *recorded)
	}{
		{"no worker reaches a database directly", isolated},
		{"paused", paused},
		{"cut from the coordinator", cutFromCoordinator},
		{"cut from the guard", cutFromGuard},
		{"one direction", oneDirection},
		{"late", late},
		{"lossy", lossy},
		{"killed", killed},
		{"servers killed", serversKilled},
		{"operator", operatorAsks},
		{"servers of the coordinator rebuilt", serversRebuilt},
		{"coordinator wiped", wiped},
	} {
		if !t.Run(fault.name, func(t *testing.T) { fault.hit(t, s, events) }) {
			return
		}
	}
	for _, w := range s.build.Topology.WorkerNames() {
		must.Succeed(t, s.Stop(ctx, w))
	}
	events.once(t)
	must.Succeed(t, s.Pause(ctx, "postgres")) // Close has to end a paused server too
	must.Succeed(t, s.Close())
	nothingLeft(t, s.settings.project)
}

func isolated(t *testing.T, s *System, _ *recorded) {
	ctx := t.Context()
	found, err := s.docker.ContainerInspect(ctx, s.id("postgres"), client.ContainerInspectOptions{})
	must.Succeed(t, err)
	for _, n := range found.Container.NetworkSettings.Networks {
		script := fmt.Sprintf("timeout 3 bash -c 'exec 3<>/dev/tcp/%s/5432'", n.IPAddress)
		if _, err := s.netfault(ctx, "worker-1", script); err == nil {
			t.Errorf("worker-1 reaches Postgres at %s without the guard", n.IPAddress)
		}
	}
	script := fmt.Sprintf("timeout 3 bash -c 'exec 3<>/dev/tcp/%s.2.110/%d'",
		s.settings.subnet, port(1, postgresPort))
	if out, err := s.netfault(ctx, "worker-1", script); err != nil {
		t.Errorf("worker-1 does not reach its guard: %v %s", err, out)
	}
}

func paused(t *testing.T, s *System, rec *recorded) {
	leader, from := rec.leader(t), rec.now()
	must.Succeed(t, s.Pause(t.Context(), leader))
	rec.waitFor(t, from, "the next leader's write", notBy(leader, acknowledged))
	must.Succeed(t, s.Resume(t.Context(), leader))
	rec.waitFor(t, from, "a stale refusal of "+leader, by(leader, stale))
}

var cut = system.Shape{HoldUp: true, HoldDown: true, Refuse: true}

func cutFromCoordinator(t *testing.T, s *System, rec *recorded) {
	leader, from := rec.leader(t), rec.now()
	before := s.addresses(t, leader)
	must.Succeed(t, s.Shape(t.Context(), leader, "coordinator", cut))
	if now := s.addresses(t, leader); len(now) != 1 {
		t.Errorf("%s is still on %v", leader, now)
	}
	rec.waitFor(t, from, leader+" to step down", by(leader, term(history.Lost)))
	rec.waitFor(t, from, "the next leader's write", notBy(leader, acknowledged))
	healed := rec.now()
	must.Succeed(t, s.Shape(t.Context(), leader, "coordinator", system.Shape{}))
	if now := s.addresses(t, leader); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("%s was at %v, and is at %v", leader, before, now)
	}
	rec.waitFor(t, healed, leader+" to stand again", by(leader, term(history.Standing)))
}

// cutFromGuard cuts for less than the session: connections continue, because the address is the
// same.
func cutFromGuard(t *testing.T, s *System, rec *recorded) {
	leader := rec.leader(t)
	must.Succeed(t, s.Shape(t.Context(), leader, "guard", cut))
	from := rec.now()
	must.Succeed(t, s.Shape(t.Context(), leader, "guard", system.Shape{}))
	rec.waitFor(t, from, "a write of the same leader", by(leader, acknowledged))
}

func oneDirection(t *testing.T, s *System, rec *recorded) {
	for _, shape := range []system.Shape{{HoldUp: true}, {HoldDown: true}} {
		leader, from := rec.leader(t), rec.now()
		must.Succeed(t, s.Shape(t.Context(), leader, "coordinator", shape))
		rec.waitFor(t, from, "the next leader's write", notBy(leader, acknowledged))
		healed := rec.now()
		must.Succeed(t, s.Shape(t.Context(), leader, "coordinator", system.Shape{}))
		rec.waitFor(t, healed, leader+" to stand again", by(leader, term(history.Standing)))
	}
}

func late(t *testing.T, s *System, rec *recorded) {
	const each = 150 * time.Millisecond
	leader := rec.leader(t)
	must.Succeed(t, s.Shape(t.Context(), leader, "guard", system.Shape{Delay: each}))
	if took := rec.took(t, leader); took < 2*each {
		t.Errorf("with a delay of %v each way a write took %v", each, took)
	}
	must.Succeed(t, s.Shape(t.Context(), leader, "guard", system.Shape{}))
	for deadline := time.Now().Add(20 * time.Second); rec.took(t, rec.leader(t)) > each; {
		if time.Now().After(deadline) {
			t.Fatal("writes are late after the delay has ended")
		}
	}
}

// took returns how long the next write of a leader takes.
func (t *recorded) took(test *testing.T, leader string) time.Duration {
	test.Helper()
	invoked := func(e history.Event) bool {
		return e.Kind == history.Invoke && e.Do == history.Write
	}
	begin := t.waitFor(test, t.now(), "an invocation", by(leader, invoked))
	end := t.waitFor(test, 0, "its return", func(e history.Event) bool {
		return e.Kind == history.Return && e.Op == begin.Op
	})
	return time.Duration(end.At - begin.At)
}

func lossy(t *testing.T, s *System, rec *recorded) {
	leader := rec.leader(t)
	err := s.Shape(t.Context(), leader, "guard", system.Shape{Loss: 0.2})
	if err != nil {
		if !strings.Contains(err.Error(), noLoss) {
			t.Fatal(err)
		}
		t.Log(err)
	}
	rec.leader(t)
	must.Succeed(t, s.Shape(t.Context(), leader, "guard", system.Shape{}))
}

func killed(t *testing.T, s *System, rec *recorded) {
	leader, from := rec.leader(t), rec.now()
	must.Succeed(t, s.Kill(t.Context(), leader))
	dead := rec.now()
	rec.waitFor(t, from, "the next leader's write", notBy(leader, acknowledged))
	for _, e := range rec.all()[dead:] {
		if strings.HasPrefix(e.Process, leader) {
			t.Errorf("reported after the kill: %+v", e)
		}
	}
	must.Succeed(t, s.Start(t.Context(), leader))
	rec.waitFor(t, dead, leader+" to stand again", by(leader, term(history.Standing)))
	from = rec.now()
	must.Succeed(t, s.Signal(t.Context(), leader, 9))
	ended := func(e history.Event) bool { return e.Text == history.Ended+"exit code 137" }
	rec.waitFor(t, from, "the note that it has ended by itself", by(leader, ended))
	must.Succeed(t, s.Start(t.Context(), leader))
}

func serversKilled(t *testing.T, s *System, rec *recorded) {
	zk, err := s.CoordinatorLeader(t.Context())
	must.Succeed(t, err)
	for _, name := range []string{zk, "postgres", "redis", "guard-1"} {
		must.Succeed(t, s.Kill(t.Context(), name))
		must.Succeed(t, s.Start(t.Context(), name))
		rec.leader(t)
	}
}

func operatorAsks(t *testing.T, s *System, rec *recorded) {
	rec.leader(t)
	out, err := s.Operator(t.Context(), "status", "-o", "json")
	must.Succeed(t, err)
	var stores []struct{ Marks []struct{ Resource string } }
	err = json.Unmarshal([]byte(out), &stores)
	if err != nil || len(stores) != 2 || len(stores[0].Marks) != 1 ||
		stores[0].Marks[0].Resource != scenario.Resource {
		t.Errorf("%v in:\n%s", err, out)
	}
	_, err = s.Operator(t.Context(), "adopt")
	if err == nil || !strings.Contains(err.Error(), "takes 1 arguments") {
		t.Errorf("a wrong call: %v", err)
	}
}

func wiped(t *testing.T, s *System, rec *recorded) {
	from := rec.now()
	must.Succeed(t, s.Wipe(t.Context()))
	rec.waitFor(t, from, "a refusal because of the issuer", func(e history.Event) bool {
		return strings.Contains(e.Text, "RF004") || strings.Contains(e.Text, "ISSUER")
	})
	_, err := s.Operator(t.Context(), "adopt", scenario.Resource)
	must.Succeed(t, err)
	rec.leader(t)
}

// addresses returns a container's addresses, by network.
func (s *System) addresses(t *testing.T, process string) map[string]string {
	t.Helper()
	found, err := s.docker.ContainerInspect(t.Context(), s.id(process),
		client.ContainerInspectOptions{})
	must.Succeed(t, err)
	all := map[string]string{}
	for name, n := range found.Container.NetworkSettings.Networks {
		all[name] = n.IPAddress.String()
	}
	return all
}

func nothingLeft(t *testing.T, project string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	docker, err := dial(ctx)
	must.Succeed(t, err)
	defer docker.Close()
	ours := make(client.Filters).Add("label", projectLabel+"="+project)
	containers, err := docker.ContainerList(ctx,
		client.ContainerListOptions{All: true, Filters: ours})
	must.Succeed(t, err)
	networks, err := docker.NetworkList(ctx, client.NetworkListOptions{Filters: ours})
	must.Succeed(t, err)
	dangling := make(client.Filters).Add("dangling", "true")
	volumes, err := docker.VolumeList(ctx, client.VolumeListOptions{Filters: dangling})
	must.Succeed(t, err)
	if len(containers.Items)+len(networks.Items)+len(volumes.Items) > 0 {
		t.Errorf("left behind: %v %v %v", containers.Items, networks.Items, volumes.Items)
	}
}
