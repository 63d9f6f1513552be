package lab

import (
	"context"
	_ "embed"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// System is a whole system under test: what is built, and what can be done to it. There are two: package local (processes
// of this machine) and package containers (docker compose). Processes are named worker-1, guard-1, zookeeper-1, postgres,
// redis.
type System interface {
	// Kill ends a process with SIGKILL and returns when it is gone. Start starts it again as it was, and returns once a
	// server answers or a guard is ready, or ctx ends.
	Kill(ctx context.Context, process string) error
	Start(ctx context.Context, process string) error
	// Stop asks a process to end (SIGTERM) and waits for it; the lab stops its workers so.
	Stop(ctx context.Context, process string) error

	// Pause freezes every process of the target at once; its connections stay open. Resume lets it go on.
	Pause(ctx context.Context, process string) error
	Resume(ctx context.Context, process string) error
	// Signal sends a signal to the target's first process alone.
	Signal(ctx context.Context, process string, s syscall.Signal) error

	// Shape sets how the link between a worker and the coordinator, the guard or the journal behaves from now on, for open
	// connections too; with Topology.StoreLinks that between a guard and postgres or redis as well. The zero Shape heals it:
	// what was held is delivered.
	Shape(ctx context.Context, process, peer string, s Shape) error
	// Turn makes a guard's link to a store lead to another of its servers: postgres or postgres-2, redis or redis-2. Open
	// connections stay where they are, as they do at a TCP balancer.
	Turn(ctx context.Context, guard, server string) error
	// SwitchOver makes the replica of Redis the primary, and the primary its replica, without loss. Clients' connections
	// stay open; whoever connects from now on, over any link, reaches the new primary, which Addresses names.
	SwitchOver(ctx context.Context) error

	// Wipe kills the coordinator, deletes its data, and starts it again.
	Wipe(ctx context.Context) error
	// Backup copies the data of a server while it runs, as a snapshot of its disk does: zookeeper (the ensemble) or
	// postgres. Restore kills the server, puts the copy in the place of its data, and starts it again.
	Backup(ctx context.Context, server string) error
	Restore(ctx context.Context, server string) error
	// ZooKeeperLeader is the name of the ensemble's leading server.
	ZooKeeperLeader(ctx context.Context) (string, error)

	// Operator runs the guard program with the system's settings: status -o json, adopt orders.
	Operator(ctx context.Context, args ...string) (string, error)

	// Addresses are how the lab itself reaches the servers, round guards and links.
	Addresses() Addresses

	// Diagnose tells what the processes have logged last, for people who look at a failed run.
	Diagnose() string
	// Close ends everything and removes it.
	Close() error
}

// Shape is how a link behaves.
type Shape struct {
	HoldUp, HoldDown bool          // nothing passes in that direction; it waits
	Refuse           bool          // and no connection can be made
	Delay            time.Duration // each way
	Loss             float64       // share of packets, 0 to 1; TCP repeats them, so they are late
}

// Programs are the files that are run. Guard and Leader are the product as users get it.
type Programs struct {
	Guard, Leader, Worker, FlawedGuard string
}

// Addresses of the servers.
type Addresses struct {
	Postgres    string // URL, as the superuser
	App         string // URL of Postgres, as the role of the workers
	Redis       string // URL
	Coordinator string // URL, as in LEADER_COORDINATOR
	// Guards are where guards take clients; Neighbour is one of them where there is one.
	Guards map[string]GuardAddress
}

// GuardAddress is where a guard takes clients.
type GuardAddress struct {
	Postgres string // URL, as the role of the workers
	Redis    string // URL
}

// Build is what a System is built from.
type Build struct {
	Topology Topology
	Workload Workload
	Seed     uint64
	Dir      string // for logs; it exists
	Programs Programs
	// Events is told what the workers say, as they say it, from any goroutine.
	Events func(history.Event)
}

// Resource is the election that the lab's workers stand in.
const Resource = "orders"

// What a topology has beside the usual processes.
const (
	Postgres2 = "postgres-2" // Topology.Copy
	Redis2    = "redis-2"    // Topology.Replica
	Neighbour = "neighbour"  // Topology.Neighbour: its guard
	// NeighbourDatabase is Neighbour's database in Postgres. In Redis it is number 1.
	NeighbourDatabase = "crm"
)

// Tables are what the lab makes in Postgres before workers start, as the superuser: evidence that the databases keep.
// Every commit is in the server's log, which is read through the replication slot "lab" (wal_level has to be logical).
// compose.yaml runs the same file.
//
//go:embed tables.sql
var Tables string

// Lua is one write to the Redis ledger: the entry and what it is about, in one script. KEYS: ledger, balance; ARGV: the entry.
// The list is the order of commits. An entry is "op token".
const Lua = `redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('INCR', KEYS[2])`
