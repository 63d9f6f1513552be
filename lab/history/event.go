package history

import (
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Kind says what an event is about. The comments list the fields that are set, apart from At.
type Kind string

const (
	Run    Kind = "run"    // first line: Header
	Invoke Kind = "invoke" // before it is sent: Process, Op, Do, Store, Token
	Return Kind = "return" // when the outcome is known: those of its Invoke, Outcome, Text
	Term   Kind = "term"   // Process, State, Token (not with Standing), Text: the cause of a loss
	Fault  Kind = "fault"  // Fault, State (Begin, Over), Text: its targets
	Note   Kind = "note"   // for people: Process, Text
	End    Kind = "end"    // last line: the run was completed

	// What the databases hold after the run.
	Evidence Kind = "evidence" // a write: Op, Store, Token, Carried, Place, Backend
	Effect   Kind = "effect"   // what a step did: Key, Store, Token, Place, Sync, Backend
	Publish  Kind = "publish"  // a checkpoint: Task, Version, Run, Round, Step, Token, Place, Backend
	Mark     Kind = "mark"     // the mark at that time: Store, Token
	// Fence is a step of the fence in Postgres: Do (Raise, or one of those below), Store, Resource,
	// Token, Issuer, Place, Backend (of a record), Copied, Start. Steps in one transaction have one
	// Place, and are in the order of the file.
	Fence Kind = "fence"

	// Job is a job as the coordinator has it after the run: Key, State, Attempt, Round, Token, Text.
	// With LeftOver it is a document that no job needs any more: Text.
	Job Kind = "job"
)

// Do is what an operation does.
type Do string

const (
	Write Do = "write" // one transaction, or one script, that leaves Evidence
	Raise Do = "raise" // raises the mark
	Step  Do = "step"  // one attempt at a step of a task; Op is unique, Key is the step's

	// Submit hands a job in: Unique, State (JobFailed if no try of it succeeds), Step: how many steps
	// each round has. The Return has its ID as Key.
	Submit Do = "submit"
	// Cancel and Retry are calls of a client: Key. Failed: the job was in another state.
	Cancel Do = "cancel"
	Retry  Do = "retry"
	// Change is a step of a job's life: Key, Attempt, Round, State (the new one), Version (that of the
	// status that it replaces; 0: it creates the job), Resource and Token (of the term that it names:
	// of the job's resource, or of the assigner), Text: the worker that has the job then. An
	// acknowledged one has Made.
	Change Do = "change"
)

// What a step of the fence does, apart from Raise.
const (
	Register   Do = "register"   // a guard records a session
	Attach     Do = "attach"     // a session records itself
	Forget     Do = "forget"     // removes the record of a session
	Open       Do = "open"       // opens the gate
	Shut       Do = "shut"       // closes the gate
	Complete   Do = "complete"   // the registry of sessions is complete
	Incomplete Do = "incomplete" // the registry counts as lost
	Empty      Do = "empty"      // the tables are created anew
)

// AboutJobs reports whether it is about documents of jobs, and nothing in a store.
func (d Do) AboutJobs() bool { return d == Submit || d == Cancel || d == Retry || d == Change }

// Outcome is what a process knows about the result of an operation.
type Outcome string

const (
	OK    Outcome = "ok"    // acknowledged: it was committed
	Stale Outcome = "stale" // refused, and not committed: the token is older than the mark
	// refused for another reason (Text begins with the code), not committed
	Refused Outcome = "refused"
	Failed  Outcome = "failed"  // not possible, and not committed
	Unknown Outcome = "unknown" // the answer was lost: it was committed, or was not, or will be
)

// State is the state of a term or of a fault.
type State string

const (
	Standing State = "standing" // it stands for election
	Won      State = "won"      // elected
	Ready    State = "ready"    // the mark is raised on every store: work begins
	Lost     State = "lost"     // the process has learned that its term is over; Text has the cause
	Left     State = "left"     // its work has ended and it gave up the term

	Begin State = "begin"
	Over  State = "end"
)

// States of a job, as in package jobs, and LeftOver.
const (
	JobWaiting   State = "waiting"
	JobAssigned  State = "assigned"
	JobRunning   State = "running"
	JobDone      State = "done"
	JobFailed    State = "failed"
	JobCancelled State = "cancelled"
	LeftOver     State = "left over"
)

// The lab's group of jobs, and the election of its worker that assigns them.
const (
	JobGroup                = "lab"
	Assigner fence.Resource = "jobs_" + JobGroup
)

// Texts in a history that have a meaning for the checker.
const (
	// Ended begins the note that a worker has ended, and that the lab did not end it.
	Ended = "ended: "
	// Failpoint begins the note of a worker that reached its failpoint, just before it ends.
	Failpoint = "failpoint "
	// Inside is the fault that a worker reports while it is stopped inside a transaction.
	Inside = "inside"
	// FinalPhase begins the name of the fault that ends a run: the leader loses its term.
	FinalPhase = "final phase: "
	// OldFinalPhase is what FinalPhase was in histories recorded until November 2026.
	OldFinalPhase = "coda: "
)

// Event is one line of a history.
type Event struct {
	At      int64       `json:"at"` // nanoseconds of CLOCK_MONOTONIC
	Kind    Kind        `json:"kind"`
	Process string      `json:"process,omitempty"` // worker-1, or a lane of it: worker-1/postgres
	Op      string      `json:"op,omitempty"`      // unique in the run
	Do      Do          `json:"do,omitempty"`
	Store   string      `json:"store,omitempty"` // postgres, redis
	Token   fence.Token `json:"token,omitempty"` // of the term that the process believes it has
	Outcome Outcome     `json:"outcome,omitempty"`
	State   State       `json:"state,omitempty"`
	Fault   string      `json:"fault,omitempty"` // its name; Begin and Over have the same one
	Text    string      `json:"text,omitempty"`

	// Issuer issued Token; it is set on Term events. Tokens of two issuers cannot be compared:
	// those of the issuer that was adopted later are newer.
	Issuer fence.Issuer `json:"issuer,omitempty"`

	// Resource is that of Token, if it is not the one resource of the run: a job's, or that of the
	// assigner.
	Resource fence.Resource `json:"resource,omitempty"`
	// Attempt is that of a job, and Unique its key. Made is the version of its status after a step.
	Attempt int    `json:"attempt,omitempty"`
	Unique  string `json:"unique,omitempty"`
	Made    int64  `json:"made,omitempty"`

	// Place is the position in its store's commit order, from 1.
	Place int64 `json:"place,omitempty"`
	// Backend is the process of the database that wrote, or whose session a record is of. It names no
	// other.
	Backend string `json:"backend,omitempty"`
	// Copied is a row that counts for nothing, because it was restored.
	Copied bool `json:"copied,omitempty"`
	// Start is the run of the server: that in which a mark or a gate was written, or the present one.
	Start string `json:"start,omitempty"`
	// Carried is the token of the session that wrote, according to the database; 0: not known.
	Carried fence.Token `json:"carried,omitempty"`

	Task    string `json:"task,omitempty"`
	Version int64  `json:"version,omitempty"`
	Run     int64  `json:"run,omitempty"`
	Round   int64  `json:"round,omitempty"`
	Step    int    `json:"step"` // the next step, from 0
	Key     string `json:"key,omitempty"`
	Sync    bool   `json:"sync,omitempty"`

	Header *Header `json:"header,omitempty"`
}

// Header says what was run and what is expected of it, so that a history can be checked without
// anything else.
type Header struct {
	Scenario string `json:"scenario"`
	About    string `json:"about"`
	Seed     uint64 `json:"seed,string"`
	Command  string `json:"command"` // that repeats the run
	Guarded  bool   `json:"guarded"` // false: the workers bypassed the guard
	Control  string `json:"control,omitempty"`
	Injector string `json:"injector"` // local, containers
	// Coordinator is that of --coordinator: zk, etcd or postgres. Histories recorded until November
	// 2026 name none; theirs was ZooKeeper.
	Coordinator string    `json:"coordinator,omitempty"`
	Started     time.Time `json:"started"` // for people
	Versions    []string  `json:"versions,omitempty"`
	Session     Duration  `json:"session"` // the session timeout at the coordinator
	Expect      Expect    `json:"expect"`
}

// Expect is what a run has to show to count at all, and the bounds that it has to keep. A zero
// field demands nothing.
type Expect struct {
	// The verdict is unknown below these.
	Changes int `json:"changes,omitempty"` // changes of leadership
	Stale   int `json:"stale,omitempty"`   // attempts under a stale token
	Before  int `json:"before,omitempty"`  // acknowledged writes before the first fault
	Kills   int `json:"kills,omitempty"`   // processes ended at a failpoint or by a kill
	Jobs    int `json:"jobs,omitempty"`    // acknowledged submissions
	// TakenBack is how often a job was taken back from a worker before it had ended.
	TakenBack int `json:"taken_back,omitempty"`
	// Above is how many writes and raises were refused to later terms of a coordinator that had gone
	// back.
	Above int `json:"above,omitempty"`
	// Late is how many completions were tried under an attempt that was over.
	Late int `json:"late,omitempty"`
	// Unanswered is how many assignments were not answered.
	Unanswered int `json:"unanswered,omitempty"`
	// Cancelled, Retried, Shared and Rounds are how often a job was cancelled, was retried by a
	// client, was returned to a submission that had not made it, and had ended a round.
	Cancelled int `json:"cancelled,omitempty"`
	Retried   int `json:"retried,omitempty"`
	Shared    int `json:"shared,omitempty"`
	Rounds    int `json:"rounds,omitempty"`

	// Breaking one of these is a violation.
	//
	// MostChanges bounds the changes of leadership before the final phase; -1 allows none.
	MostChanges int `json:"most_changes,omitempty"`
	// MostTakenBack bounds how often a job is taken back: sessions end only where faults end them.
	MostTakenBack int `json:"most_taken_back,omitempty"`
	// Recover bounds the time from the end of the last fault to the next acknowledged write (I6).
	Recover Duration `json:"recover,omitempty"`
	// StepDown bounds the time from the beginning of a fault until its leader has lost its term.
	StepDown Duration `json:"step_down,omitempty"`
	// TakeOver bounds the time from the beginning of a fault that hits a leader until another leader
	// has written to each store, also if the fault lasts longer.
	TakeOver Duration `json:"take_over,omitempty"`
	// MayLose is how long before a fault on a store its acknowledged writes may be missing.
	MayLose Duration `json:"may_lose,omitempty"`
	// Settles is how long after such a fault they may be, too: two servers may believe to be the
	// primary until the cluster manager has decided for one.
	Settles  Duration `json:"settles,omitempty"`
	Refusals []string `json:"refusals,omitempty"` // codes that have to occur, such as RF004
	Steps    int      `json:"steps,omitempty"`    // of the task that must have taken effect (I4)
	// Spread is the least share of the assignments that each worker must have, in percent of an equal
	// share.
	Spread int `json:"spread,omitempty"`
}
