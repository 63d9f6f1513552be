package scenario

import (
	"fmt"
	"strings"
)

// WorkerNames returns worker-1 and so on.
func (t Topology) WorkerNames() []string { return names("worker", t.Workers) }

// GuardNames returns guard-1 and so on, without the neighbour's guard.
func (t Topology) GuardNames() []string { return names("guard", t.Guards) }

// AllGuardNames returns all guards, with the neighbour's guard if there is one.
func (t Topology) AllGuardNames() []string {
	if t.Neighbour {
		return append(t.GuardNames(), Neighbour)
	}
	return t.GuardNames()
}

// CoordinatorNames returns the servers of the coordinator, at least one. Postgres has one, or two
// with Standby: the primary is the first.
func (t Topology) CoordinatorNames() []string {
	n := max(1, t.CoordinatorServers)
	switch t.Elections {
	case InEtcd:
		return names("etcd", n)
	case InPostgres:
		if t.Standby {
			return []string{"elections", "elections-2"}
		}
		return []string{"elections"}
	case InTheStore, BySQL:
		return t.PostgresNames()
	}
	return names("zookeeper", n)
}

// PostgresNames returns postgres, or the servers of the cluster, of which the first one is the
// primary at first.
func (t Topology) PostgresNames() []string {
	if t.Cluster == "" {
		return []string{"postgres"}
	}
	return names("postgres", 3)
}

// GuardOf returns the guard that a worker uses.
func (t Topology) GuardOf(worker string) string {
	n := 1
	_, _ = fmt.Sscanf(worker, "worker-%d", &n)
	return fmt.Sprintf("guard-%d", (n-1)%max(1, t.Guards)+1)
}

// StoreOf returns the store that a server belongs to, which is also the name of its first server:
// postgres for postgres-2.
func StoreOf(server string) string {
	store, _, _ := strings.Cut(server, "-")
	return store
}

func names(kind string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%d", kind, i+1))
	}
	return all
}

// Resource is the resource for which the lab's workers stand for election.
const Resource = "orders"

// What a topology may have apart from the usual processes.
const (
	Postgres1 = "postgres-1" // Topology.Cluster
	Postgres2 = "postgres-2" // Topology.Copy, or Topology.Cluster
	Postgres3 = "postgres-3" // Topology.Cluster
	Redis2    = "redis-2"    // Topology.Replica
	Neighbour = "neighbour"  // Topology.Neighbour: its guard
	// NeighbourDatabase is Neighbour's database in Postgres. In Redis it is number 1.
	NeighbourDatabase = "crm"
)

// JobCapacity is how many jobs a worker runs at once.
const JobCapacity = 4

// WorkerCommand returns the command line of a worker, for given paths of leader and worker.
func (w Workload) WorkerCommand(leader, worker string) []string {
	if w.Kind == Commands {
		return []string{leader, "run", Resource, "--", worker}
	}
	return []string{worker}
}

// OnlyMarks is the target of a backup of only the marks in Postgres.
const OnlyMarks = "marks"
