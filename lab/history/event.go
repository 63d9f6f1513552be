package history

import (
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Kind is what an event is about. The comment names the fields that are set, besides At.
type Kind string

const (
	Run    Kind = "run"    // first line: Header
	Invoke Kind = "invoke" // Process, Op, Do, Store, Token: is about to be sent
	Return Kind = "return" // those of its Invoke, Outcome, Text: the process knows what became of it
	Term   Kind = "term"   // Process, State, Token (but for Standing), Text: the cause of a loss
	Fault  Kind = "fault"  // Fault, State (Begin, End), Text: who or what it hit
	Note   Kind = "note"   // Process, Text: for people
	End    Kind = "end"    // last line: the run was carried out to its end

	Evidence Kind = "evidence" // Op, Store, Token, Carried, Place: a write that the database holds
	Effect   Kind = "effect"   // Key, Store, Token, Place, Sync: what a step did
	Publish  Kind = "publish"  // Task, Version, Run, Round, Step, Token, Place: a checkpoint as it was stored
	Mark     Kind = "mark"     // Store, Token: the mark as the store had it then; State says when, where it matters
)

// Do is what an operation does.
type Do string

const (
	Write Do = "write" // one transaction, or one script, that leaves Evidence
	Raise Do = "raise" // lifts the mark
	Step  Do = "step"  // one attempt of a task's step; Op is unique, Key is the step's
)

// Outcome is what a process knows of an operation.
type Outcome string

const (
	OK      Outcome = "ok"      // acknowledged: it has landed
	Stale   Outcome = "stale"   // refused because the token is older than the mark: nothing has landed
	Refused Outcome = "refused" // refused for another reason (Text begins with the code): nothing has landed
	Failed  Outcome = "failed"  // could not be done, and nothing has landed
	Unknown Outcome = "unknown" // the answer was lost: it has landed, or not, or will
)

// State is of a term or a fault.
type State string

const (
	Standing State = "standing" // it stands for election
	Won      State = "won"      // elected
	Ready    State = "ready"    // the mark is raised on every store: work begins
	Lost     State = "lost"     // the process has learned that its term is over; Text has the cause
	Left     State = "left"     // its work has ended, the term was given up

	Begin State = "begin"
	Over  State = "end"
)

// Event is one line of a history.
type Event struct {
	At      int64       `json:"at"` // nanoseconds of CLOCK_MONOTONIC
	Kind    Kind        `json:"kind"`
	Process string      `json:"process,omitempty"` // worker-1; with concurrent operations worker-1/postgres: one at a time each
	Op      string      `json:"op,omitempty"`      // unique in the run
	Do      Do          `json:"do,omitempty"`
	Store   string      `json:"store,omitempty"` // postgres, redis
	Token   fence.Token `json:"token,omitempty"` // of the term that the process acts in, by its own belief
	Outcome Outcome     `json:"outcome,omitempty"`
	State   State       `json:"state,omitempty"`
	Fault   string      `json:"fault,omitempty"` // its name; Begin and End have the same one
	Text    string      `json:"text,omitempty"`

	// Issuer is who issued Token, on events of terms: tokens of two issuers cannot be compared, and which came later is
	// told by which was adopted later.
	Issuer fence.Issuer `json:"issuer,omitempty"`

	Place   int64       `json:"place,omitempty"`   // in the order of commits of its store, from 1
	Carried fence.Token `json:"carried,omitempty"` // the token of the session that wrote, as the database knows it; 0: not known

	Task    string `json:"task,omitempty"`
	Version int64  `json:"version,omitempty"`
	Run     int64  `json:"run,omitempty"`
	Round   int64  `json:"round,omitempty"`
	Step    int    `json:"step"` // the next step, from 0
	Key     string `json:"key,omitempty"`
	Sync    bool   `json:"sync,omitempty"`

	Header *Header `json:"header,omitempty"`
}

// Header says what was run, and what is expected of it, so that a history can be checked without anything else.
type Header struct {
	Scenario string    `json:"scenario"`
	About    string    `json:"about"`
	Seed     uint64    `json:"seed,string"`
	Command  string    `json:"command"` // that runs it again
	Guarded  bool      `json:"guarded"` // false: the workers went round the guard
	Control  string    `json:"control,omitempty"`
	Injector string    `json:"injector"` // local, containers
	Started  time.Time `json:"started"`  // for people
	Versions []string  `json:"versions,omitempty"`
	Session  Duration  `json:"session"` // the session timeout at the coordinator
	Expect   Expect    `json:"expect"`
}

// Expect is what a run has to show to count at all, and the bounds that it has to keep. Zero fields ask for nothing.
type Expect struct {
	Changes     int      `json:"changes,omitempty"`      // at least so many changes of leadership, or the verdict is unknown
	MostChanges int      `json:"most_changes,omitempty"` // before the coda: more is a violation; -1: none may happen
	Stale       int      `json:"stale,omitempty"`        // at least so many attempts under a stale token, or unknown
	Before      int      `json:"before,omitempty"`       // acknowledged writes before the first fault, or unknown
	Recover     Duration `json:"recover,omitempty"`      // from the end of the last fault until a new write is acknowledged: I6
	StepDown    Duration `json:"step_down,omitempty"`    // from the begin of a fault until the leader that it hit has lost its term
	MayLose     Duration `json:"may_lose,omitempty"`     // acknowledged writes to a store so long before a fault on it may be missing
	Refusals    []string `json:"refusals,omitempty"`     // codes that have to occur, such as RF004
	Steps       int      `json:"steps,omitempty"`        // of the task: effects of all are demanded once it is done (I4)
	Kills       int      `json:"kills,omitempty"`        // at least so many processes ended at a failpoint, or unknown
}
