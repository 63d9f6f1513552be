// Package system says what can be done to a system under test, and how one is built. Its two
// implementations are packages local and containers; what both need is here, too.
package system

import (
	"context"
	_ "embed"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
)

// System is a whole system under test: what was built, and what can be done to it. There are two:
// package local (processes of this machine) and package containers (docker compose). Processes are
// named worker-1, guard-1, postgres, redis, and those of Topology.CoordinatorNames.
type System interface {
	// Kill ends a process with SIGKILL and returns when it is gone. Start starts it again and
	// returns once a server answers or a guard is ready, or ctx ends.
	Kill(ctx context.Context, process string) error
	Start(ctx context.Context, process string) error
	// Stop asks a process to end (SIGTERM) and waits for it. The lab stops its workers with it.
	Stop(ctx context.Context, process string) error

	// Pause freezes every process of the target at once; its connections stay open. Resume
	// continues it.
	Pause(ctx context.Context, process string) error
	Resume(ctx context.Context, process string) error
	// Signal sends a signal to the target's first process only.
	Signal(ctx context.Context, process string, s syscall.Signal) error

	// Shape sets how the link between a worker and the coordinator, the guard or the journal
	// behaves from now on, also for open connections. With Topology.StoreLinks, guards also have
	// links to the coordinator, postgres and redis. The zero Shape heals the link: held data is
	// delivered.
	Shape(ctx context.Context, process, peer string, s Shape) error
	// Turn turns a guard's link to a store to another of its servers: postgres or postgres-2, redis
	// or redis-2. Open connections stay where they are, as with a TCP balancer.
	Turn(ctx context.Context, guard, server string) error
	// SwitchOver makes the replica of Redis the primary, and the primary its replica, without loss.
	// Clients' connections stay open. New connections over any link reach the new primary, which
	// Addresses names. With Topology.Sentinels, Sentinel does it in its own way.
	SwitchOver(ctx context.Context) error

	// Wipe kills the coordinator, deletes its data, and starts it again.
	Wipe(ctx context.Context) error
	// Backup copies the data of a server while it runs, as a disk snapshot does: coordinator (all
	// its servers; etcd is stopped meanwhile) or postgres. Restore kills the server, replaces its
	// data with the copy, and starts it again.
	Backup(ctx context.Context, server string) error
	Restore(ctx context.Context, server string) error
	// CoordinatorLeader returns the name of the coordinator's server that leads the others.
	CoordinatorLeader(ctx context.Context) (string, error)

	// Operator runs the guard program with the system's settings: status -o json, adopt orders.
	Operator(ctx context.Context, args ...string) (string, error)

	// Addresses returns how the lab itself reaches the servers, without guards and links.
	Addresses() Addresses

	// Diagnose returns the last log lines of all processes, for people who look at a failed run.
	Diagnose() string
	// Close ends everything and removes it.
	Close() error
}

// CoordinatorServers is what can be done to single servers of the coordinator. Not every System can
// do it.
type CoordinatorServers interface {
	// Lose kills a server and deletes its data. Rebuild puts an empty one in its place, as an operator
	// does, and returns once it serves.
	Lose(ctx context.Context, server string) error
	Rebuild(ctx context.Context, server string) error
	// Lag stops the stream from the primary to the standby. Promote makes the standby a primary.
	Lag(ctx context.Context) error
	Promote(ctx context.Context) error
}

// Cluster is what can be done to a Postgres of several servers (Topology.Cluster). Not every System
// can do it.
type Cluster interface {
	// Primary returns the name of the primary.
	Primary(ctx context.Context) (string, error)
	// MakePrimary makes a server the primary: in order if Patroni does it, without a look at the
	// others if it is a mere standby.
	MakePrimary(ctx context.Context, server string) error
	// Crash kills the first process of Postgres, which Patroni starts again.
	Crash(ctx context.Context, server string) error
}

// Logs is what can be done to the logs of processes. Not every System can do it.
type Logs interface {
	// Clog stops reading the standard error of a process, and fills the pipe behind it. Unclog reads
	// on. Both need Topology.LogPipes.
	Clog(ctx context.Context, process string) error
	Unclog(ctx context.Context, process string) error
}

// Locale is what can be done to the C library under Postgres. Not every System can do it.
type Locale interface {
	// SortAnew stops Postgres, changes the order of texts in its database's locale, and starts it
	// again. "aa" came before "z", and comes after it now. It needs Topology.OwnLocale.
	SortAnew(ctx context.Context) error
}

// Shape is how a link behaves.
type Shape struct {
	HoldUp, HoldDown bool          // data in that direction waits
	Refuse           bool          // and no connection can be made
	Break            bool          // no connection stays open, and others are refused at once
	Delay            time.Duration // each way
	Loss             float64       // share of packets, 0 to 1; TCP repeats them, so they are late
	LoseEnds         bool          // the end of a connection never arrives: it stays half-open
	Port             int           // the hold is only of the connection with this port at the server
}

// Of reports whether a hold is of the connection with this port at the server.
func (s Shape) Of(port int) bool { return s.Port == 0 || s.Port == port }

// Programs are the paths of the programs. Guard and Leader are those that users get.
type Programs struct {
	Guard, Leader, Worker, FlawedGuard string
}

// Addresses of the servers.
type Addresses struct {
	Postgres    string // URL, as the superuser
	App         string // URL of Postgres, as the role of the workers
	Redis       string // URL
	Coordinator string // URL, as in LEADER_COORDINATOR
	// Guards has the addresses of all guards, also of Neighbour.
	Guards map[string]GuardAddress
}

// GuardAddress is where a guard listens for clients.
type GuardAddress struct {
	Postgres string // URL, as the role of the workers
	Redis    string // URL
}

// Build says how a System is built.
type Build struct {
	Topology scenario.Topology
	Workload scenario.Workload
	Seed     uint64
	Dir      string // for logs; it exists
	Programs Programs
	// Events is called with what the workers report, at once and from any goroutine.
	Events func(history.Event)
}

// Tables are what the lab creates in Postgres, as the superuser, before workers start: tables in
// which the databases keep evidence. Every commit is in the server's log, of which log_start says
// where the run begins: wal_keep_size has to keep it. compose.yaml runs the same file.
//
//go:embed tables.sql
var Tables string

// EndLog writes one more commit to the log. The view commits has all that come before it.
const EndLog = "select pg_logical_emit_message(true, 'lab', 'end')"

// SQLTables are what transactions on the path SQL also use, in one transaction: a deferred trigger
// and a function that write to the ledger.
//
//go:embed sqlpath.sql
var SQLTables string

// Lua is one write to the Redis ledger: the entry and its effect, in one script. KEYS: ledger,
// balance; ARGV: the entry. The list is the order of commits. An entry is "op token".
const Lua = `redis.call('RPUSH', KEYS[1], ARGV[1]) return redis.call('INCR', KEYS[2])`
