package containers

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

// coordinator says how the compose files run a coordinator. Its services are
// Topology.CoordinatorNames.
type coordinator struct {
	file  string // added to compose.yaml; "" if that has the services
	image string // the service whose image has to be built; "" if none has
	host  int    // last byte of the first server's address on the network coordination
	port  int    // of each server
	link  int    // the port of a worker's link to the first server: see port
	url   string // for clients, with HOSTS and PASSWORD

	alone [2]string // variable and value of the first server if it runs alone: %s is its address
	joins [2]string // variable and value of a server that was admitted; empty if it needs none
	// admit makes the servers at these addresses accept an empty one on a host, in place of the one
	// that was there. It is nil if they need no such order.
	admit func(ctx context.Context, others []string, host string) error
	data  []string // directories
	live  bool     // they may be copied while the servers run; otherwise these are paused
	leads func(ctx context.Context, address string) bool
}

var allCoordinators = map[scenario.Elections]coordinator{
	scenario.InZooKeeper: {
		host: 101, port: 2181, link: 2181, url: "zk://HOSTS/ringfence",
		alone: [2]string{"ZOO_SERVERS", "server.1=%s:2888:3888;2181"},
		data:  []string{"/data", "/datalog"}, live: true, leads: system.LeadsZooKeeper,
	},
	scenario.InEtcd: {
		file: "compose.etcd.yaml", image: "etcd-1",
		host: 111, port: 2379, link: 2379, url: "etcd://HOSTS/ringfence",
		alone: [2]string{"ETCD_INITIAL_CLUSTER", "etcd-1=http://%s:2380"},
		joins: [2]string{"ETCD_INITIAL_CLUSTER_STATE", "existing"},
		admit: func(ctx context.Context, others []string, host string) error {
			return system.ReplaceEtcdMember(ctx, others, "http://"+host+":2380")
		},
		data: []string{"/data/etcd"}, leads: system.LeadsEtcd,
	},
	scenario.InPostgres: {
		file: "compose.postgres.yaml",
		host: 115, port: 5432, link: 5434,
		url:   "postgres://elections:PASSWORD@HOSTS/" + database + "?sslmode=disable",
		data:  postgresData,
		leads: func(context.Context, string) bool { return true }, // it asks for the primary first
	},
}

// coordinatorOf returns the coordinator of a topology.
func coordinatorOf(t scenario.Topology) coordinator {
	return allCoordinators[cmp.Or(t.Elections, scenario.InZooKeeper)]
}

// at returns the URL for clients that reach the servers at these addresses.
func (c coordinator) at(addresses []string, password string) string {
	return strings.NewReplacer("HOSTS", strings.Join(addresses, ","), "PASSWORD", password).
		Replace(c.url)
}

// files returns the compose files, in the repository at root.
func (c coordinator) files(root string) []string {
	files := []string{filepath.Join(root, composeFile)}
	if c.file != "" {
		files = append(files, filepath.Join(root, c.file))
	}
	return files
}

// coordinatorHost returns the address of server i, from 0, on the network coordination.
func (s settings) coordinatorHost(c coordinator, i int) string {
	return fmt.Sprintf("%s.1.%d", s.subnet, c.host+i)
}

// The password stays a variable, and out of the overlay.
const electionsPassword = "${ELECTIONS_PASSWORD}"

// guardCoordinator returns the URL for a guard, or the program of a guard's operator; "" if guards
// have no coordinator.
func (s settings) guardCoordinator(t scenario.Topology, guard string) string {
	if t.Coordinator == scenario.NoCoordinator {
		return ""
	}
	if n := linkNumber(t, guard); n > 0 {
		return s.linkedCoordinator(t, n)
	}
	c := coordinatorOf(t)
	var all []string
	for i := range t.CoordinatorNames() {
		all = append(all, fmt.Sprintf("%s:%d", s.coordinatorHost(c, i), c.port))
	}
	return c.at(all, electionsPassword)
}

// linkedCoordinator returns the URL for a process over its links.
func (s settings) linkedCoordinator(t scenario.Topology, n int) string {
	c := coordinatorOf(t)
	var all []string
	for i := range t.CoordinatorNames() {
		all = append(all, fmt.Sprintf("%s.1.110:%d", s.subnet, port(n, c.link+i)))
	}
	return c.at(all, electionsPassword)
}

// coordinatorURL returns the URL for the lab itself.
func (s settings) coordinatorURL(t scenario.Topology) string {
	var all []string
	for _, name := range t.CoordinatorNames() {
		all = append(all, s.host(name))
	}
	return coordinatorOf(t).at(all, s.password)
}

// CoordinatorLeader implements system.System. It waits while there is none.
func (s *System) CoordinatorLeader(ctx context.Context) (string, error) {
	leads := coordinatorOf(s.build.Topology).leads
	return system.LeadingServer(ctx, s.build.Topology.CoordinatorNames(),
		func(ctx context.Context, name string) bool { return leads(ctx, s.settings.host(name)) })
}

// Wipe implements system.System: it removes the containers with their volumes, and creates new
// ones.
func (s *System) Wipe(ctx context.Context) error {
	all := s.build.Topology.CoordinatorNames()
	if err := s.remove(ctx, all...); err != nil {
		return err
	}
	if err := s.foundAgain(); err != nil {
		return err
	}
	return s.startCoordinator(ctx)
}

// startCoordinator starts the coordinator with empty disks.
func (s *System) startCoordinator(ctx context.Context) error {
	first := primaries(s.build.Topology)
	if err := s.up(ctx, first...); err != nil {
		return err
	}
	if err := s.allReady(ctx, first); err != nil {
		return err
	}
	return s.startStandby(ctx)
}
