package lab

import (
	"time"

	"github.com/ringfence/ringfence/lab/flaw"
	"github.com/ringfence/ringfence/lab/history"
)

// Scenario is one entry of the catalogue.
type Scenario struct {
	Name     string         `json:"name"` // as on the command line
	Rows     []int          `json:"rows"` // of the catalogue of faults (lab/README.md)
	About    string         `json:"about"`
	Topology Topology       `json:"topology"`
	Workload Workload       `json:"workload"`
	Faults   []Fault        `json:"faults"`
	Expect   history.Expect `json:"expect"`
	Random   bool           `json:"random,omitempty"` // faults are drawn from the seed, for as long as asked
	Only     Injector       `json:"only,omitempty"`   // the one injector that can do it
}

// Injector is a kind of System.
type Injector string

const (
	Local      Injector = "local"      // processes of this machine
	Containers Injector = "containers" // docker compose
)

// Topology is what is built.
type Topology struct {
	ZooKeepers int `json:"zookeepers"` // 1 or 3
	Guards     int `json:"guards"`
	Workers    int `json:"workers"`

	Session     time.Duration `json:"session"`               // session timeout at the coordinator
	RedisFsync  string        `json:"redis_fsync,omitempty"` // appendfsync; always when empty
	Coordinator string        `json:"coordinator,omitempty"` // "none": the guards have no coordinator
	GuardFlaw   string        `json:"guard_flaw,omitempty"`  // a control: see package flaw
	SchemaFlaw  string        `json:"schema_flaw,omitempty"` // a control: what an administrator or a bug does to the schema
	PGSettings  []string      `json:"pg_settings,omitempty"` // name=value
	Route       Route         `json:"route,omitempty"`       // how workers write; Run sets Direct when the guard is off

	GuardSettings []string `json:"guard_settings,omitempty"` // name=value
	// StoreLinks gives guards links to Postgres and Redis, which can be shaped and turned.
	StoreLinks bool `json:"store_links,omitempty"`
	// Replica gives Redis a replica, redis-2; needs StoreLinks.
	Replica bool `json:"replica,omitempty"`
	// Copy starts a second Postgres, postgres-2, from a copy of the first one's disk; needs StoreLinks.
	Copy bool `json:"copy,omitempty"`
	// Neighbour starts a guard for another database of the same servers, with marks of its own.
	Neighbour bool `json:"neighbour,omitempty"`
}

// TickTime is a ZooKeeper tick that allows the session timeout, which may be from 2 to 20 ticks, and keeps it well: sessions
// expire at a tick.
func (t Topology) TickTime() time.Duration {
	const longest = 200 * time.Millisecond
	if t.Session <= 0 {
		return longest
	}
	return max(t.Session/20, min(t.Session/4, longest))
}

// setSession gives it sessions of another length, such as those in production. The bounds grow with it.
func (s *Scenario) setSession(session time.Duration) {
	more := history.Duration(session - s.Topology.Session)
	s.Topology.Session = session
	if s.Expect.Recover > 0 {
		s.Expect.Recover += 2 * more
	}
	if s.Expect.StepDown > 0 {
		s.Expect.StepDown += more
	}
}

// Route is how workers reach the databases.
type Route string

const (
	Guarded  Route = "guarded"  // through the guard: sessions under a token
	Embedded Route = "embedded" // to the database itself, each transaction or script under a token
	Direct   Route = "direct"   // to the database itself, without any token: what the world does without Ringfence
)

// Workload is what the leader does.
type Workload struct {
	Kind  Kind          `json:"kind"`
	Pause time.Duration `json:"pause,omitempty"` // between operations; 5 ms when zero

	// Manners is how a leader behaves that has lost its term. The zero value writes on with what it has, and on new
	// connections, until it was refused: the leader that fencing exists for.
	Manners Manners `json:"manners,omitempty"`
	// Health makes a leader resign when nothing was acknowledged for so long; 0: never.
	Health time.Duration `json:"health,omitempty"`

	Rounds     int64             `json:"rounds,omitempty"`     // Tasks: of two steps each
	Failpoints map[string]string `json:"failpoints,omitempty"` // worker: a place of worker.Places, and the step, as "after effect:3"
	Flaw       string            `json:"flaw,omitempty"`       // a control: see package flaw
	Child      string            `json:"child,omitempty"`      // Commands: "", "ignore-term", "fork"
	ClockJump  time.Duration     `json:"clock_jump,omitempty"` // on USR2 the worker's injected wall clock jumps so far
}

// Kind is of a workload.
type Kind string

const (
	Ledger   Kind = "ledger"   // fence.Lead, entries in a Postgres and a Redis ledger, both at once
	Tasks    Kind = "tasks"    // checkpoint.Runner: a synchronous and an asynchronous step in turn
	Commands Kind = "commands" // leader run, with a child that keeps the ledger
)

// Manners are of a deposed leader.
type Manners string

const (
	Reckless Manners = ""     // writes on
	Good     Manners = "good" // stops when its context ends
)

// Action is what a fault does to its target.
type Action string

const (
	Pause   Action = "pause"   // every process of the target stands still, connections stay open
	Stop    Action = "stop"    // SIGSTOP to the target's first process alone
	Kill    Action = "kill"    // SIGKILL to all of it; the end of the fault starts it again
	Restart Action = "restart" // an orderly stop (SIGTERM); the end of the fault starts it again
	Behead  Action = "behead"  // SIGKILL to the target's first process alone; what it has started lives on
	Cut     Action = "cut"     // the link is gone, in both directions; what is sent waits
	Hold    Action = "hold"    // one direction of the link: what is sent waits and arrives when the fault ends
	Slow    Action = "slow"    // the link has a delay and loses packets
	Wipe    Action = "wipe"    // kill, and its data is gone; it starts again empty at once
	Backup  Action = "backup"  // a copy of its data is made; a coordinator's counter goes on. On marks: of those in Postgres
	Restore Action = "restore" // kill, and its data is that of the copy; it starts again at once. On marks: pg_restore --clean
	Depose  Action = "depose"  // an operator deletes the leader's candidacy
	Adopt   Action = "adopt"   // an operator runs guard adopt
	Renew   Action = "renew"   // an operator runs guard adopt --new-issuer
	Inside  Action = "inside"  // the leader stops inside its next transaction until the fault ends (USR1, USR2)
	Jump    Action = "jump"    // the injected wall clock of a worker jumps (USR2)

	Turn       Action = "turn"        // a balancer leads a guard's new connections to the server To; the end turns it back
	SwitchOver Action = "switch over" // Redis and its replica change places, in order
	Reinstall  Action = "reinstall"   // drop schema ringfence cascade, and guard install
	Forget     Action = "forget"      // Redis loses the marks alone and is killed; the end starts it again
	Swap       Action = "swap"        // SWAPDB, so that the marks are elsewhere; the end swaps back. The evidence stays in place
	Obstruct   Action = "obstruct"    // sessions of any role lock what they can: an attach left open, a queue for advisory locks
	Crowd      Action = "crowd"       // clients that never log in take a guard's places, and come back when they are ended
	Stray      Action = "stray"       // the lab itself writes under the token of the leader before this one, by the way By
)

// By is a way to a store that a deposed leader may try.
type By string

// Ways of a Stray.
const (
	ByNeighbour By = "a neighbour's guard"       // asked for the database that it does not guard
	ByForgery   By = "a forged right to publish" // straight to Postgres, with the setting that enter would have made
)

// Fault is one thing that is done to the system, and undone.
type Fault struct {
	Do Action `json:"do"`
	// On names the target: a process (worker-1, guard-1, zookeeper-2, postgres, redis), "leader", "standby" (some worker
	// that does not lead), "workers" (all of them), "guard of leader", "zookeeper leader", "zookeeper follower", "zookeeper majority", "zookeeper"
	// (all of it). Roles are resolved when the fault begins.
	On   string `json:"on"`
	Link string `json:"link,omitempty"` // Cut, Hold, Slow: the other end: coordinator, guard, journal
	// Direction of a Hold: "up" (what On sends) or "down".
	Direction string        `json:"direction,omitempty"`
	To        string        `json:"to,omitempty"`    // Turn: the server that new connections reach
	By        By            `json:"by,omitempty"`    // Stray
	Delay     time.Duration `json:"delay,omitempty"` // Slow
	Loss      float64       `json:"loss,omitempty"`  // Slow: share of packets, 0 to 1

	After time.Duration `json:"after,omitempty"` // since the fault before it ended, or since the warm-up
	For   time.Duration `json:"for,omitempty"`   // how long it lasts, at least
	Until Until         `json:"until,omitempty"` // and what it waits for, besides
	Times int           `json:"times,omitempty"` // repeated so often; 1 when zero
	// Overlap ends it only once the next one in the list has begun.
	Overlap bool    `json:"overlap,omitempty"`
	With    []Fault `json:"with,omitempty"` // faults within this one, before it waits
	Then    []Fault `json:"then,omitempty"` // faults within this one, after it has waited

	name string // in the history; from the rest when empty
}

// Until is what a fault waits for before it ends.
type Until string

const (
	Elapsed    Until = ""            // nothing but For
	NextLeader Until = "next leader" // another worker than the leader at the begin is ready and has written
	Tried      Until = "tried"       // another worker has written, or has been refused so often that it stands for election again
	Written    Until = "written"     // somebody has written since it began
)

// unguard makes it the world without Ringfence. A task's fence is in its journal: there the condition is taken out.
func (s *Scenario) unguard() {
	if s.Workload.Kind == Tasks {
		s.Workload.Flaw = string(flaw.Unconditional)
		return
	}
	s.Topology.Route = Direct
}
