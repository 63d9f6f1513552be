package containers

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/ringfence/ringfence/lab"
	"github.com/ringfence/ringfence/lab/history"
)

func stale(e history.Event) bool { return e.Kind == history.Return && e.Outcome == history.Stale }

// TestEveryFaultOfContainers hits one system with every fault, because it takes long to build.
func TestEveryFaultOfContainers(t *testing.T) {
	events := newTold()
	s := build(t, lab.Build{
		Topology: lab.Topology{ZooKeepers: 3, Guards: 2, Workers: 3, Session: time.Second},
		Workload: lab.Workload{Pause: 20 * time.Millisecond}, Events: events.add,
	})
	ctx := t.Context()
	for _, w := range s.build.Topology.WorkerNames() {
		must(t, s.Start(ctx, w))
	}
	events.leader(t)

	for _, fault := range []struct {
		name string
		hit  func(*testing.T, *System, *told)
	}{
		{"no worker reaches a database", apart},
		{"paused", paused},
		{"cut from the coordinator", cutFromCoordinator},
		{"cut from the guard", cutFromGuard},
		{"one direction", oneDirection},
		{"late", late},
		{"lossy", lossy},
		{"killed", killed},
		{"servers killed", serversKilled},
		{"operator", operatorAsks},
		{"coordinator wiped", wiped},
	} {
		if !t.Run(fault.name, func(t *testing.T) { fault.hit(t, s, events) }) {
			return
		}
	}
	for _, w := range s.build.Topology.WorkerNames() {
		must(t, s.Stop(ctx, w))
	}
	events.once(t)
	must(t, s.Pause(ctx, "postgres")) // Close has to cope
	must(t, s.Close())
	nothingLeft(t, s.settings.project)
}

func apart(t *testing.T, s *System, _ *told) {
	ctx := t.Context()
	found, err := s.docker.ContainerInspect(ctx, s.id("postgres"), client.ContainerInspectOptions{})
	must(t, err)
	for _, n := range found.Container.NetworkSettings.Networks {
		script := fmt.Sprintf("timeout 3 bash -c 'exec 3<>/dev/tcp/%s/5432'", n.IPAddress)
		if _, err := s.netfault(ctx, "worker-1", script); err == nil {
			t.Errorf("worker-1 reaches Postgres at %s round the guard", n.IPAddress)
		}
	}
	script := fmt.Sprintf("timeout 3 bash -c 'exec 3<>/dev/tcp/%s.2.110/%d'", s.settings.subnet, port(1, postgresPort))
	if said, err := s.netfault(ctx, "worker-1", script); err != nil {
		t.Errorf("worker-1 does not reach its guard: %v %s", err, said)
	}
}

func paused(t *testing.T, s *System, told *told) {
	leader, from := told.leader(t), told.now()
	must(t, s.Pause(t.Context(), leader))
	told.waitFor(t, from, "the next leader's write", notBy(leader, acknowledged))
	must(t, s.Resume(t.Context(), leader))
	told.waitFor(t, from, "a stale refusal of "+leader, by(leader, stale))
}

var cut = lab.Shape{HoldUp: true, HoldDown: true, Refuse: true}

func cutFromCoordinator(t *testing.T, s *System, told *told) {
	leader, from := told.leader(t), told.now()
	before := s.addresses(t, leader)
	must(t, s.Shape(t.Context(), leader, "coordinator", cut))
	if now := s.addresses(t, leader); len(now) != 1 {
		t.Errorf("%s is still on %v", leader, now)
	}
	told.waitFor(t, from, leader+" to step down", by(leader, func(e history.Event) bool { return e.Kind == history.Term && e.State == history.Lost }))
	told.waitFor(t, from, "the next leader's write", notBy(leader, acknowledged))
	healed := told.now()
	must(t, s.Shape(t.Context(), leader, "coordinator", lab.Shape{}))
	if now := s.addresses(t, leader); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("%s was at %v, and is at %v", leader, before, now)
	}
	told.waitFor(t, healed, leader+" to stand again", by(leader, func(e history.Event) bool { return e.Kind == history.Term && e.State == history.Standing }))
}

// cutFromGuard cuts for less than the session: the same connection goes on, because the address is the same.
func cutFromGuard(t *testing.T, s *System, told *told) {
	leader := told.leader(t)
	must(t, s.Shape(t.Context(), leader, "guard", cut))
	from := told.now()
	must(t, s.Shape(t.Context(), leader, "guard", lab.Shape{}))
	told.waitFor(t, from, "a write of the same leader", by(leader, acknowledged))
}

func oneDirection(t *testing.T, s *System, told *told) {
	for _, shape := range []lab.Shape{{HoldUp: true}, {HoldDown: true}} {
		leader, from := told.leader(t), told.now()
		must(t, s.Shape(t.Context(), leader, "coordinator", shape))
		told.waitFor(t, from, "the next leader's write", notBy(leader, acknowledged))
		healed := told.now()
		must(t, s.Shape(t.Context(), leader, "coordinator", lab.Shape{}))
		told.waitFor(t, healed, leader+" to stand again", by(leader, func(e history.Event) bool { return e.Kind == history.Term && e.State == history.Standing }))
	}
}

func late(t *testing.T, s *System, told *told) {
	const each = 150 * time.Millisecond
	leader := told.leader(t)
	must(t, s.Shape(t.Context(), leader, "guard", lab.Shape{Delay: each}))
	if took := told.took(t, leader); took < 2*each {
		t.Errorf("with a delay of %v each way a write took %v", each, took)
	}
	must(t, s.Shape(t.Context(), leader, "guard", lab.Shape{}))
	for deadline := time.Now().Add(20 * time.Second); told.took(t, told.leader(t)) > each; {
		if time.Now().After(deadline) {
			t.Fatal("writes are late after the delay has ended")
		}
	}
}

// took is how long the second write of a leader takes that begins from now on.
func (t *told) took(test *testing.T, leader string) time.Duration {
	test.Helper()
	begin := t.waitFor(test, t.now(), "an invocation", by(leader, func(e history.Event) bool { return e.Kind == history.Invoke && e.Do == history.Write }))
	end := t.waitFor(test, 0, "its return", func(e history.Event) bool { return e.Kind == history.Return && e.Op == begin.Op })
	return time.Duration(end.At - begin.At)
}

func lossy(t *testing.T, s *System, told *told) {
	leader := told.leader(t)
	err := s.Shape(t.Context(), leader, "guard", lab.Shape{Loss: 0.2})
	if err != nil {
		if !strings.Contains(err.Error(), noLoss) {
			t.Fatal(err)
		}
		t.Log(err)
	}
	told.leader(t)
	must(t, s.Shape(t.Context(), leader, "guard", lab.Shape{}))
}

func killed(t *testing.T, s *System, told *told) {
	leader, from := told.leader(t), told.now()
	must(t, s.Kill(t.Context(), leader))
	said := told.now()
	told.waitFor(t, from, "the next leader's write", notBy(leader, acknowledged))
	for _, e := range told.all()[said:] {
		if strings.HasPrefix(e.Process, leader) {
			t.Errorf("told after the kill: %+v", e)
		}
	}
	must(t, s.Start(t.Context(), leader))
	told.waitFor(t, said, leader+" to stand again", by(leader, func(e history.Event) bool { return e.Kind == history.Term && e.State == history.Standing }))
	said = told.now()
	must(t, s.Signal(t.Context(), leader, 9))
	told.waitFor(t, said, "the word that it has ended by itself", by(leader, func(e history.Event) bool { return e.Text == lab.Ended+"exit code 137" }))
	must(t, s.Start(t.Context(), leader))
}

func serversKilled(t *testing.T, s *System, told *told) {
	zk, err := s.ZooKeeperLeader(t.Context())
	must(t, err)
	for _, name := range []string{zk, "postgres", "redis", "guard-1"} {
		must(t, s.Kill(t.Context(), name))
		must(t, s.Start(t.Context(), name))
		told.leader(t)
	}
}

func operatorAsks(t *testing.T, s *System, told *told) {
	told.leader(t)
	out, err := s.Operator(t.Context(), "status", "-o", "json")
	must(t, err)
	var stores []struct{ Marks []struct{ Resource string } }
	if err := json.Unmarshal([]byte(out), &stores); err != nil || len(stores) != 2 || len(stores[0].Marks) != 1 || stores[0].Marks[0].Resource != lab.Resource {
		t.Errorf("%v in:\n%s", err, out)
	}
	if _, err := s.Operator(t.Context(), "adopt"); err == nil || !strings.Contains(err.Error(), "takes 1 arguments") {
		t.Errorf("a wrong call: %v", err)
	}
}

func wiped(t *testing.T, s *System, told *told) {
	from := told.now()
	must(t, s.Wipe(t.Context()))
	told.waitFor(t, from, "a refusal because of the issuer", func(e history.Event) bool {
		return strings.Contains(e.Text, "RF004") || strings.Contains(e.Text, "ISSUER")
	})
	_, err := s.Operator(t.Context(), "adopt", lab.Resource)
	must(t, err)
	told.leader(t)
}

// addresses are a container's, by network.
func (s *System) addresses(t *testing.T, process string) map[string]string {
	t.Helper()
	found, err := s.docker.ContainerInspect(t.Context(), s.id(process), client.ContainerInspectOptions{})
	must(t, err)
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
	must(t, err)
	defer docker.Close()
	ours := make(client.Filters).Add("label", projectLabel+"="+project)
	containers, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	must(t, err)
	networks, err := docker.NetworkList(ctx, client.NetworkListOptions{Filters: ours})
	must(t, err)
	volumes, err := docker.VolumeList(ctx, client.VolumeListOptions{Filters: make(client.Filters).Add("dangling", "true")})
	must(t, err)
	if len(containers.Items)+len(networks.Items)+len(volumes.Items) > 0 {
		t.Errorf("left behind: %v %v %v", containers.Items, networks.Items, volumes.Items)
	}
}
