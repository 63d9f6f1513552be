package containers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// topologies has the largest topology of each coordinator.
func topologies() map[scenario.Elections]scenario.Topology {
	all := map[scenario.Elections]scenario.Topology{}
	for e := range allCoordinators {
		all[e] = scenario.Topology{
			Elections: e, CoordinatorServers: mostCoordinators, Guards: mostGuards, Workers: mostWorkers,
		}
	}
	return all
}

func TestEveryCoordinatorIsReachedAtItsAddresses(t *testing.T) {
	s := settings{
		subnet: "10.83", password: "secret",
		ports: map[string]int{
			"zookeeper-1": 1, "zookeeper-2": 2, "zookeeper-3": 3,
			"etcd-1": 4, "etcd-2": 5, "etcd-3": 6, "elections": 7, "elections-2": 8,
		},
	}
	for e, want := range map[scenario.Elections][3]string{
		scenario.InZooKeeper: {
			"zk://10.83.1.101:2181,10.83.1.102:2181,10.83.1.103:2181/ringfence",
			"zk://10.83.1.110:22181,10.83.1.110:22182,10.83.1.110:22183/ringfence",
			"zk://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/ringfence",
		},
		scenario.InEtcd: {
			"etcd://10.83.1.111:2379,10.83.1.112:2379,10.83.1.113:2379/ringfence",
			"etcd://10.83.1.110:22379,10.83.1.110:22380,10.83.1.110:22381/ringfence",
			"etcd://127.0.0.1:4,127.0.0.1:5,127.0.0.1:6/ringfence",
		},
		scenario.InPostgres: {
			"postgres://elections:${ELECTIONS_PASSWORD}@10.83.1.115:5432/postgres?sslmode=disable",
			"postgres://elections:${ELECTIONS_PASSWORD}@10.83.1.110:25434/postgres?sslmode=disable",
			"postgres://elections:secret@127.0.0.1:7/postgres?sslmode=disable",
		},
	} {
		topology := topologies()[e]
		got := [3]string{
			s.guardCoordinator(topology, "install"), s.linkedCoordinator(topology, 2),
			s.coordinatorURL(topology),
		}
		if got != want {
			t.Errorf("%s: guards, worker-2 and the lab use\n%s", e, strings.Join(got[:], "\n"))
		}
		topology.StoreLinks = true
		if got := s.guardCoordinator(topology, "guard-2"); got != s.linkedCoordinator(topology, 5) {
			t.Errorf("%s: with links, guard-2 uses %s", e, got)
		}
		if got := s.guardCoordinator(topology, "install"); got != want[0] {
			t.Errorf("%s: with links of guards, their operator uses %s", e, got)
		}
		topology.Coordinator = scenario.NoCoordinator
		if url := s.guardCoordinator(topology, "install"); url != "" {
			t.Errorf("guards without a coordinator use %s", url)
		}
	}
}

func TestTheOverlayRunsOneServerAloneAndKeepsPasswordsOut(t *testing.T) {
	s := settings{subnet: "10.83", password: "secret", ports: map[string]int{}}
	for e, want := range map[scenario.Elections]string{
		scenario.InZooKeeper: "ZOO_SERVERS=server.1=10.83.1.101:2888:3888;2181",
		scenario.InEtcd:      "ETCD_INITIAL_CLUSTER=etcd-1=http://10.83.1.111:2380",
	} {
		for servers := range mostCoordinators {
			topology := topologies()[e]
			topology.CoordinatorServers = servers + 1
			variable, value, _ := strings.Cut(want, "=")
			first := s.overlay(system.Build{Topology: topology}, changes{})[topology.CoordinatorNames()[0]]
			if got := first.Environment[variable]; (got == value) != (servers == 0) {
				t.Errorf("%s of %d servers has %s=%s", e, servers+1, variable, got)
			}
		}
	}
	joins := changes{joins: map[string]bool{"etcd-2": true}}
	for name, want := range map[string]string{"etcd-1": "", "etcd-2": "existing"} {
		all := s.overlay(system.Build{Topology: topologies()[scenario.InEtcd]}, joins)
		if got := all[name].Environment["ETCD_INITIAL_CLUSTER_STATE"]; got != want {
			t.Errorf("%s has ETCD_INITIAL_CLUSTER_STATE=%q after etcd-2 was replaced", name, got)
		}
	}
	for e, topology := range topologies() {
		text, err := json.Marshal(s.overlay(system.Build{Topology: topology}, changes{}))
		if err != nil || strings.Contains(string(text), s.password) {
			t.Errorf("%s: %v in %s", e, err, text)
		}
	}
}

// What people start by hand and what the lab starts have the same links and addresses.
func TestTheFilesOfComposeHaveEveryCoordinator(t *testing.T) {
	root, err := findRoot()
	must.Succeed(t, err)
	text, err := os.ReadFile(filepath.Join(root, "lab", "containers", "toxiproxy.json"))
	must.Succeed(t, err)
	var proxies []struct{ Name, Listen, Upstream string }
	must.Succeed(t, json.Unmarshal(text, &proxies))
	links := map[string]string{}
	for _, p := range proxies {
		links[p.Name] = p.Listen + " " + p.Upstream
	}
	s := settings{subnet: "${SUBNET:-10.83}", password: "elections"}
	for e, topology := range topologies() {
		c := coordinatorOf(topology)
		files := c.files(root)
		text, err := os.ReadFile(files[len(files)-1])
		must.Succeed(t, err)
		has := func(what string) {
			t.Helper()
			if !strings.Contains(string(text), what) {
				t.Errorf("%s: %s lacks %s", e, files[len(files)-1], what)
			}
		}
		byHand := strings.NewReplacer(electionsPassword, "${ELECTIONS_PASSWORD:-elections}",
			"?sslmode=disable", "")
		has("GUARD_COORDINATOR: " + byHand.Replace(s.guardCoordinator(topology, "install")) + "\n")
		for n := range topology.WorkerNames() {
			has("LAB_COORDINATOR: " + byHand.Replace(s.linkedCoordinator(topology, n+1)) + "\n")
		}
		topology.Standby = true // a service that only the lab starts
		for i, server := range topology.CoordinatorNames() {
			has("\n  " + server + ":\n")
			has("ipv4_address: " + s.coordinatorHost(c, i) + "\n")
			for n, worker := range topology.WorkerNames() {
				want := fmt.Sprintf("0.0.0.0:%d %s:%d", port(n+1, c.link+i), server, c.port)
				if got := links[worker+"."+server]; got != want {
					t.Errorf("the link %s.%s is %q, and not %q", worker, server, got, want)
				}
			}
		}
	}
}

func TestEveryLinkToACoordinatorCanBeCut(t *testing.T) {
	s := settings{subnet: "10.83"}
	for e, topology := range topologies() {
		l, err := s.link(topology, "worker-2", "coordinator")
		if err != nil || l.network != "coordination" || l.address != "10.83.1.110" {
			t.Errorf("%s: %+v, %v", e, l, err)
		}
		want := len(topology.CoordinatorNames())
		if len(l.proxies) != want || len(l.ports) != want {
			t.Errorf("%s: %d servers, and links %v at %v", e, want, l.proxies, l.ports)
		}
		if l, err := s.link(topology, "guard-1", "coordinator"); err == nil {
			t.Errorf("%s: without StoreLinks guard-1 has the link %+v", e, l)
		}
		topology.StoreLinks = true
		l, err = s.link(topology, "guard-1", "coordinator")
		if err != nil || l.network != "" || len(l.ports) != want || l.ports[0][0] != '4' {
			t.Errorf("%s: with StoreLinks: %+v, %v", e, l, err)
		}
	}
}

func TestOnlyZooKeeperIsCopiedWhileItRuns(t *testing.T) {
	for e, topology := range topologies() {
		s := &System{build: system.Build{Topology: topology}}
		d := s.disksOf("zookeeper")
		if len(d.dirs) == 0 || fmt.Sprint(d.servers) != fmt.Sprint(topology.CoordinatorNames()) {
			t.Errorf("%s: %+v", e, d)
		}
		if d.live != (e == scenario.InZooKeeper) {
			t.Errorf("%s is copied while it runs: %v", e, d.live)
		}
		if d := s.disksOf("postgres"); d.live || fmt.Sprint(d.servers) != "[postgres]" {
			t.Errorf("the guarded Postgres: %+v", d)
		}
	}
}

// It hits one system of each coordinator with every fault that a coordinator can have. Those of
// ZooKeeper are in TestEveryFaultInContainers.
func TestEveryFaultOfACoordinatorInContainers(t *testing.T) {
	type fault struct {
		name string
		hit  func(*testing.T, *System, *recorded)
	}
	own := map[scenario.Elections]fault{
		scenario.InEtcd:     {"servers rebuilt", serversRebuilt},
		scenario.InPostgres: {"failed over", failedOver},
	}
	for _, e := range []scenario.Elections{scenario.InEtcd, scenario.InPostgres} {
		t.Run(string(e), func(t *testing.T) {
			events := newRecorded()
			s := build(t, system.Build{
				Topology: scenario.Topology{
					Elections: e, CoordinatorServers: 3, Standby: e == scenario.InPostgres, StoreLinks: true,
					Guards: 1, Workers: 2, Session: time.Second,
				},
				Workload: scenario.Workload{Pause: 20 * time.Millisecond}, Events: events.add,
			})
			for _, w := range s.build.Topology.WorkerNames() {
				must.Succeed(t, s.Start(t.Context(), w))
			}
			events.leader(t)
			for _, fault := range []fault{
				{"cut from the coordinator", cutFromCoordinator},
				{"one direction", oneDirection},
				{"links break", linksBreak},
				{"servers fail", coordinatorFails},
				own[e],
				{"wiped", wiped}, // also the end of a failover and of a replacement
				{"restored", coordinatorRestored},
			} {
				if !t.Run(fault.name, func(t *testing.T) { fault.hit(t, s, events) }) {
					return
				}
			}
			must.Succeed(t, s.Close())
			nothingLeft(t, s.settings.project)
		})
	}
}

// coordinatorFails kills, stops and pauses the server that leads the others.
func coordinatorFails(t *testing.T, s *System, rec *recorded) {
	ctx := t.Context()
	for _, end := range []func(name string) error{
		func(name string) error { return s.Kill(ctx, name) },
		func(name string) error { return s.Stop(ctx, name) },
	} {
		leading, err := s.CoordinatorLeader(ctx)
		must.Succeed(t, err)
		must.Succeed(t, end(leading))
		must.Succeed(t, s.Start(ctx, leading))
		rec.leader(t)
	}
	leading, err := s.CoordinatorLeader(ctx)
	must.Succeed(t, err)
	must.Succeed(t, s.Pause(ctx, leading))
	must.Succeed(t, s.Resume(ctx, leading))
	rec.leader(t)
}

// coordinatorRestored restores a copy after the leader has won a token that the copy does not know.
// Other elections have advanced the counter, so the next tokens are lower.
func coordinatorRestored(t *testing.T, s *System, rec *recorded) {
	ctx := t.Context()
	must.Succeed(t, s.Backup(ctx, "zookeeper"))
	rec.leader(t)
	advance(t, s.Addresses().Coordinator)
	for range 2 { // the first successor may have been a candidate before the copy
		leader, from := rec.leader(t), rec.now()
		must.Succeed(t, s.Pause(ctx, leader))
		rec.waitFor(t, from, "the next leader's write", notBy(leader, acknowledged))
		must.Succeed(t, s.Resume(ctx, leader))
		rec.waitFor(t, from, leader+" to stand again", by(leader, term(history.Standing)))
	}
	from := rec.now()
	must.Succeed(t, s.Restore(ctx, "zookeeper"))
	rec.waitFor(t, from, "a refusal because the coordinator went back", func(e history.Event) bool {
		return strings.Contains(e.Text, "RF004") || strings.Contains(e.Text, "ISSUER")
	})
	workers := s.build.Topology.WorkerNames()
	for _, w := range workers {
		must.Succeed(t, s.Kill(ctx, w))
	}
	_, err := s.Operator(ctx, "adopt", "--new-issuer", scenario.Resource)
	must.Succeed(t, err)
	for _, w := range workers {
		must.Succeed(t, s.Start(ctx, w))
	}
	rec.leader(t)
}

// advance wins terms of another election and gives them up.
func advance(t *testing.T, url string) {
	t.Helper()
	co, err := system.OpenCoordinator(t.Context(), url, coordinators.Options{})
	must.Succeed(t, err)
	defer co.Close()
	for range 100 {
		term, err := co.Campaign(t.Context(), "another", "test")
		must.Succeed(t, err)
		must.Succeed(t, term.Resign(t.Context()))
	}
}

func TestEveryScenarioThatIsNotLocalFits(t *testing.T) {
	for _, s := range scenario.Catalogue {
		if !s.RunsIn(scenario.Containers) {
			continue
		}
		if err := checkTopology(s.Topology); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}
