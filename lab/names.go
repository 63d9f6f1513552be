package lab

import (
	"fmt"
	"strings"
)

// WorkerNames are what the workers are called: worker-1 and so on.
func (t Topology) WorkerNames() []string { return names("worker", t.Workers) }

// GuardNames are the guards.
func (t Topology) GuardNames() []string { return names("guard", t.Guards) }

// ZooKeeperNames are the servers of the ensemble, one at least.
func (t Topology) ZooKeeperNames() []string { return names("zookeeper", max(1, t.ZooKeepers)) }

// GuardOf is the guard that a worker talks to.
func (t Topology) GuardOf(worker string) string {
	n := 1
	_, _ = fmt.Sscanf(worker, "worker-%d", &n)
	return fmt.Sprintf("guard-%d", (n-1)%max(1, t.Guards)+1)
}

// StoreOf is the store that a server is one of, and the name of its first server: postgres for postgres-2.
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
