// Package scenario is the catalogue of the lab: what a scenario consists of, all scenarios, and the
// bugs that are seeded to test the lab itself. It is data, and does nothing.
package scenario

import (
	"fmt"
	"time"

	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
)

// Scenario is one entry in the catalogue.
type Scenario struct {
	Name     string         `json:"name"` // as on the command line
	Rows     []int          `json:"rows"` // of the catalogue of faults (lab/README.md)
	About    string         `json:"about"`
	Topology Topology       `json:"topology"`
	Workload Workload       `json:"workload"`
	Faults   []Fault        `json:"faults"`
	Expect   history.Expect `json:"expect"`
	Random   bool           `json:"random,omitempty"` // faults are drawn from the seed
	Only     Injector       `json:"only,omitempty"`   // the only injector that can do it
	// NotOn has the coordinators that cannot do it, and why.
	NotOn map[Elections]string `json:"not_on,omitempty"`
}

// Injector names a kind of System.
type Injector string

const (
	Local      Injector = "local"      // processes of this machine
	Containers Injector = "containers" // docker compose
)

// Topology says what is built.
type Topology struct {
	CoordinatorServers int `json:"coordinator_servers"` // 1 or 3; Postgres is always one

	Guards  int `json:"guards"`
	Workers int `json:"workers"`

	Session     time.Duration `json:"session"`               // session timeout at the coordinator
	RedisFsync  string        `json:"redis_fsync,omitempty"` // appendfsync; always when empty
	Coordinator string        `json:"coordinator,omitempty"` // NoCoordinator, or empty
	GuardFlaw   string        `json:"guard_flaw,omitempty"`  // a control: see package flaw
	SchemaFlaw  string        `json:"schema_flaw,omitempty"` // a control: a flaw in a store's data
	PGSettings  []string      `json:"pg_settings,omitempty"` // name=value
	Route       Route         `json:"route,omitempty"`       // Run sets Direct if the guard is off
	Elections   Elections     `json:"elections,omitempty"`   // where; in ZooKeeper when empty

	// RedisSettings has name=value, of redis-server. Only package local has them.
	RedisSettings []string `json:"redis_settings,omitempty"`
	GuardSettings []string `json:"guard_settings,omitempty"` // name=value
	TLS           bool     `json:"tls,omitempty"`            // on every leg: --tls
	// StoreLinks gives guards links to Postgres and Redis that can be shaped and turned. In
	// containers it also gives them links to the coordinator, which they always have in package
	// local.
	StoreLinks bool `json:"store_links,omitempty"`
	// Replica gives Redis a replica, redis-2; needs StoreLinks.
	Replica bool `json:"replica,omitempty"`
	// Copy starts a second Postgres, postgres-2, from a copy of the first one's disk; needs
	// StoreLinks.
	Copy bool `json:"copy,omitempty"`
	// Debug lets Redis run DEBUG.
	Debug bool `json:"debug,omitempty"`
	// Cluster makes Postgres a primary with two standbys: postgres-1, postgres-2 and postgres-3.
	// Guards and workers know all three. Only package local can.
	Cluster Cluster `json:"cluster,omitempty"`
	// Beside puts a guard beside each server of Patroni, and HAProxy before the guards.
	Beside bool `json:"beside,omitempty"`
	// Sentinels has three Sentinels watch Redis and its replica; needs Replica. Guards ask them. Only
	// package local can.
	Sentinels bool `json:"sentinels,omitempty"`
	// Standby gives the coordinator a standby, if it is Postgres: a server that streams from it.
	Standby bool `json:"standby,omitempty"`
	// Neighbour starts a guard for another database on the same servers, with other marks.
	Neighbour bool `json:"neighbour,omitempty"`
	// Agents gives each worker a leader agent, which holds its terms. Both share the worker's links,
	// and Pause of the worker freezes both.
	Agents bool `json:"agents,omitempty"`
	// DirectSessions has Postgres itself admit the sessions of workers, and these connect to it; to
	// Redis they go through the guard. It needs Postgres 17. Only package local can.
	DirectSessions bool `json:"direct_sessions,omitempty"`
	// OwnLocale gives the database in Postgres a locale of its own, for SortAnew. Only package local
	// can.
	OwnLocale bool `json:"own_locale,omitempty"`
	// LogPipes has the lab read the standard error of guards and workers through pipes, for Clog.
	LogPipes bool `json:"log_pipes,omitempty"`
}

// Cluster is who makes a standby of Postgres the primary.
type Cluster string

const (
	Standbys Cluster = "standbys" // the lab itself
	Patroni  Cluster = "patroni"  // which also starts a Postgres again that has crashed
)

// Elections says which coordinator holds the elections.
type Elections string

// The coordinators.
const (
	InZooKeeper Elections = "zk"
	InEtcd      Elections = "etcd"
	InPostgres  Elections = "postgres" // a server of its own
	// the database that is written to, of a cluster
	InTheStore Elections = "store"
	// the same by SQL functions: of the path SQL, and no other
	BySQL Elections = "sql"
)

// InStore reports whether elections are in the database that is written to.
func (e Elections) InStore() bool { return e == InTheStore || e == BySQL }

// AllElections lists the coordinators.
var AllElections = []Elections{InZooKeeper, InEtcd, InPostgres, InTheStore}

// Name returns the coordinator's name for people.
func (e Elections) Name() string {
	switch e {
	case InEtcd:
		return "etcd"
	case InPostgres:
		return "Postgres"
	case InTheStore:
		return "the store"
	case BySQL:
		return "SQL"
	}
	return "ZooKeeper"
}

// NoCoordinator as Topology.Coordinator leaves the guards without a coordinator.
const NoCoordinator = "none"

// TickTime returns a ZooKeeper tick that allows the session timeout, which must be from 2 to 20
// ticks, and is short enough for it: sessions expire at a tick.
func (t Topology) TickTime() time.Duration {
	const longest = 200 * time.Millisecond
	if t.Session <= 0 {
		return longest
	}
	return max(t.Session/20, min(t.Session/4, longest))
}

// SetSession sets the session timeout, for example to that of production. The bounds grow with it.
func (s *Scenario) SetSession(session time.Duration) {
	more := history.Duration(session - s.Topology.Session)
	s.Topology.Session = session
	if s.Expect.Recover > 0 {
		s.Expect.Recover += 2 * more
	}
	if s.Expect.StepDown > 0 {
		s.Expect.StepDown += more
	}
	if s.Expect.TakeOver > 0 {
		s.Expect.TakeOver += 2 * more
	}
}

// Route is how workers reach the databases.
type Route string

const (
	Guarded  Route = "guarded"  // through the guard: sessions under a token
	Embedded Route = "embedded" // to the database itself, each transaction or script under a token
	Direct   Route = "direct"   // to the database itself without a token, as without Ringfence
	// to what LEADER_CARRY of leader run has opened, as a program that knows no token
	Carried Route = "carrier"
	// through PgBouncer, with the functions of docs/sql.md; no coordinator, no guard
	SQL Route = "sql"
)

// Workload says what the leader does.
type Workload struct {
	Kind  Kind          `json:"kind"`
	Pause time.Duration `json:"pause,omitempty"` // between operations; 5 ms when zero

	// Manners say how a leader behaves that has lost its term. The zero value keeps writing, on old
	// and new connections, until it is refused: fencing exists because of such leaders.
	Manners Manners `json:"manners,omitempty"`
	// Health makes a leader resign if nothing is acknowledged for that time; 0: never.
	Health time.Duration `json:"health,omitempty"`

	Rounds int64 `json:"rounds,omitempty"` // Tasks: of two steps each
	// Failpoints maps a worker to one of worker.Places or JobPlaces and a number, such as "after
	// effect:3".
	Failpoints map[string]string `json:"failpoints,omitempty"`
	Flaw       string            `json:"flaw,omitempty"`       // a control: see package flaw
	Child      string            `json:"child,omitempty"`      // Commands: "ignore-term", "fork"
	ClockJump  time.Duration     `json:"clock_jump,omitempty"` // of the injected clock, on USR2

	Jobs     int    `json:"jobs,omitempty"`     // Jobs: how many are submitted, at least
	Strategy string `json:"strategy,omitempty"` // Jobs: of package jobs; the default when empty

	// Clients is how many clients race for unique keys, cancel jobs and retry some. When 0, one client
	// only submits jobs.
	Clients    int       `json:"clients,omitempty"`
	ClientFlaw flaw.Name `json:"client_flaw,omitempty"` // a control: see package flaw
}

// Kind is the kind of a workload.
type Kind string

const (
	Ledger   Kind = "ledger"   // fence.Lead, entries in ledgers in Postgres and Redis at once
	Tasks    Kind = "tasks"    // checkpoint.Runner: synchronous and asynchronous steps in turn
	Commands Kind = "commands" // leader run, with a child that keeps the ledgers
	Jobs     Kind = "jobs"     // jobs.Worker: jobs of several steps, under the term of each job
)

// Manners are the behaviour of a deposed leader.
type Manners string

const (
	Reckless Manners = ""     // keeps writing
	Good     Manners = "good" // stops when its context ends
)

// Action is what a fault does to its target.
type Action string

const (
	Pause   Action = "pause"   // freezes every process of the target; connections stay open
	Stop    Action = "stop"    // SIGSTOP to the target's first process only
	Kill    Action = "kill"    // SIGKILL to every process; the end of the fault starts it again
	Restart Action = "restart" // an orderly stop (SIGTERM); the end of the fault starts it again
	Behead  Action = "behead"  // SIGKILL to the target's first process only; its children live on
	Cut     Action = "cut"     // cuts the link in both directions; data waits
	Hold    Action = "hold"    // holds data in one direction of the link until the fault ends
	Slow    Action = "slow"    // the link has a delay and loses packets
	Wipe    Action = "wipe"    // kills it, deletes its data and starts it again at once
	Backup  Action = "backup"  // copies its data, and advances a coordinator's counter
	Restore Action = "restore" // kills it, restores the copy of its data and starts it at once
	Depose  Action = "depose"  // an operator ends the leader's term, as leader resign does
	Adopt   Action = "adopt"   // an operator runs guard adopt
	Renew   Action = "renew"   // an operator runs guard adopt --new-issuer
	Inside  Action = "inside"  // the leader stops inside its next transaction (USR1, USR2)
	Jump    Action = "jump"    // the injected wall clock of a worker jumps (USR2)

	// Break ends the link's open connections, and refuses others until the fault ends.
	Break Action = "break"
	// Revoke ends the leader's session at the coordinator by hand, and so all its terms.
	Revoke Action = "revoke"
	// Compact deletes the history of etcd.
	Compact Action = "compact"
	// Lose kills a server of the coordinator and deletes its data. The end puts an empty one in its
	// place.
	Lose Action = "lose"
	// Lag stops the stream to the standby of the coordinator. What comes later is lost with the
	// primary.
	Lag Action = "lag"
	// Promote makes the coordinator's standby a primary, or a server of the cluster.
	Promote Action = "promote"
	// Crash kills the first process of a Postgres of Patroni.
	Crash Action = "crash"
	// Advance uses up numbers of the coordinator in other elections, nearly to the last leader's
	// token.
	Advance Action = "advance"
	// Retire kills its target for good.
	Retire Action = "retire"

	// Turn turns a guard's new connections to the server To, as a balancer does; the end turns
	// back.
	Turn Action = "turn"
	// SwitchOver swaps the roles of Redis and its replica, in order, or makes another server of the
	// cluster the primary.
	SwitchOver Action = "switch over"
	// Reinstall drops the schema ringfence, and runs guard install.
	Reinstall Action = "reinstall"
	// Forget deletes only the marks in Redis and kills it; the end starts it again.
	Forget Action = "forget"
	// Swap moves the marks away with SWAPDB, but not the evidence; the end swaps back. Both reset the
	// statistics that would show it.
	Swap Action = "swap"
	// Reload loads the backup of Redis into the running server, but keeps the evidence.
	Reload Action = "reload"
	// Obstruct locks what any role can lock: an open attach, a queue for advisory locks.
	Obstruct Action = "obstruct"
	// Crowd uses up a guard's limits with clients that never log in, and reconnect when ended.
	Crowd Action = "crowd"
	// Lock keeps the ledger in Postgres locked, in an open transaction of the leader's.
	Lock Action = "lock"
	// Stay keeps a session of the leader in each store open, through a guard.
	Stay Action = "stay"
	// Fill has idle sessions of the leader, through all guards, use up every connection that the store
	// On takes. They stay open.
	Fill Action = "fill"
	// Fork has a session of the leader, through a guard, ask Redis for the debugger of scripts. Redis
	// forks for that, and the child keeps the connection.
	Fork Action = "fork"
	// LoseEnds loses the end of each connection of the link, so that it stays half-open for good.
	LoseEnds Action = "lose ends"
	// Spoil has a session of the leader at a guard get an answer from Postgres that nobody asked for.
	// Its next write is held between guard and Postgres until the fault ends.
	Spoil Action = "spoil"
	// Clog fills the pipe behind a process's standard error, and reads nothing from it until the
	// fault ends; needs LogPipes.
	Clog Action = "clog"
	// SortAnew restarts Postgres with another order of texts in its C library; needs OwnLocale.
	SortAnew Action = "sort anew"
	// Stray writes from the lab itself under the token of the previous leader, in the way By.
	Stray Action = "stray"
)

// By is a way to a store that a deposed leader may try.
type By string

const (
	// ByNeighbour asks a neighbour's guard for a database that it does not guard.
	ByNeighbour By = "a neighbour's guard"
	// ByForgery connects to Postgres directly, and makes the setting that enter would have made.
	ByForgery By = "a forged right to publish"
	// ByScript connects to Redis directly, and runs a script under the token.
	ByScript By = "a script under the token"
	// ByStaying writes in the sessions that Stay has kept open.
	ByStaying By = "sessions that have stayed open"
	// ByFork writes in the child that Fork has made, and copies that over the data of Redis.
	ByFork By = "a fork of Redis"
	// ByReturning asks a guard again, as after a lost connection.
	ByReturning By = "its guard again"
)

// Fault is one thing that is done to the system, and undone.
type Fault struct {
	Do Action `json:"do"`
	// On names the target: a process (worker-1, guard-1, postgres, redis) or a role: "leader",
	// "standby" (some worker that does not lead), "workers" (all of them), "guard of leader", "agent
	// of leader", "primary" (of the cluster), "busy worker" (the one that runs the most jobs),
	// "assigner" (the one that assigns them), "coordinator leader", "coordinator follower",
	// "coordinator majority", "coordinator" (all its servers), or SameTarget. Roles are resolved when
	// the fault begins. Backup and Restore also take "marks": those in Postgres, with pg_dump and
	// pg_restore --clean. Backup of redis writes its file.
	On string `json:"on"`
	// Link is the other end for Break, Cut, Hold, Slow and LoseEnds: coordinator, guard, journal.
	Link      string        `json:"link,omitempty"`
	Direction string        `json:"direction,omitempty"` // Hold: "up" (what On sends) or "down"
	To        string        `json:"to,omitempty"`        // Turn: the server for new connections
	By        By            `json:"by,omitempty"`        // Stray
	Delay     time.Duration `json:"delay,omitempty"`     // Slow
	Loss      float64       `json:"loss,omitempty"`      // Slow: share of packets, 0 to 1

	After time.Duration `json:"after,omitempty"` // since the previous fault, or the warm-up
	For   time.Duration `json:"for,omitempty"`   // how long it lasts, at least
	Until Until         `json:"until,omitempty"` // what else it waits for
	Times int           `json:"times,omitempty"` // how often it is repeated; 1 when zero
	// Overlap ends it only once the next one in the list has begun.
	Overlap bool    `json:"overlap,omitempty"`
	With    []Fault `json:"with,omitempty"` // faults inside this one, before it waits
	Then    []Fault `json:"then,omitempty"` // faults inside this one, after it has waited

	Name string `json:"-"` // in the history; if empty, it is made from the rest
}

// SameTarget is the first target of the fault around this one.
const SameTarget = "the same"

// Until is what a fault waits for before it ends.
type Until string

const (
	// Elapsed waits for nothing but For.
	Elapsed Until = ""
	// NextLeader waits until another worker than the leader at the beginning is ready and has
	// written.
	NextLeader Until = "next leader"
	// GivenUp waits until the leader at the beginning says that its term is over.
	GivenUp Until = "given up"
	// Tried waits until another worker has written, or was refused so often that it stands again.
	Tried Until = "tried"
	// Written waits until somebody has written.
	Written Until = "written"
	// Passed waits until workers have won some terms above the last leader's token, or one of them
	// leads.
	Passed Until = "passed"
	// HandedOver waits until each job that the targets ran at the beginning runs again and has
	// written, or has ended.
	HandedOver Until = "handed over"
	// NextAssigner waits until another worker assigns jobs.
	NextAssigner Until = "next assigner"
)

// Unguard removes Ringfence. The fence of a task is in its journal: there the condition is removed.
// On the path SQL enter is removed, and elections stay.
func (s *Scenario) Unguard() {
	if s.Workload.Kind == Tasks {
		s.Workload.Flaw = string(flaw.Unconditional)
		return
	}
	if s.Topology.Route == SQL {
		s.Workload.Flaw = string(flaw.NoEnter)
		return
	}
	s.Topology.Route, s.Topology.DirectSessions = Direct, false
}

// RunsIn reports whether the scenario can be run with this injector.
func (s Scenario) RunsIn(in Injector) bool { return s.Only == "" || s.Only == in }

// RunsOn reports whether the scenario can be run with this coordinator.
func (s Scenario) RunsOn(e Elections) bool { return s.WhyNotOn(e) == "" }

// WhyNotOn returns why the scenario cannot be run with this coordinator; "" if it can.
func (s Scenario) WhyNotOn(e Elections) string {
	if e == InTheStore && s.Topology.Cluster == "" {
		return "its faults are not of a cluster, which elections in the store are tried with"
	}
	return s.NotOn[e]
}

// String describes the fault.
func (f Fault) String() string {
	if f.Name != "" {
		return f.Name
	}
	text := fmt.Sprintf("%s %s", f.Do, f.On)
	if f.Link != "" {
		text += " from " + f.Link
	}
	if f.Direction != "" {
		text += " (" + f.Direction + ")"
	}
	return text
}
