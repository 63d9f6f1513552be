package job

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// State is where a job is.
//
//	submit ──▶ waiting ──▶ assigned ──▶ running ──▶ done, failed, cancelled
//	              ▲            │           │
//	              └────────────┴───────────┘  its worker is gone or gives it back; it is tried again;
//	                                          it repeats
//
// It can be cancelled in each state before its end, and has failed if it has lost too many workers.
// A job that has failed or was cancelled waits again after Retry.
type State string

// States of a job.
const (
	Waiting   State = "waiting"   // for a worker, or for its time
	Assigned  State = "assigned"  // a worker has been told
	Running   State = "running"   // a worker leads the job's resource
	Done      State = "done"      // its result is published
	Failed    State = "failed"    // out of retries, or not worth one (Permanent)
	Cancelled State = "cancelled" // somebody has cancelled it
)

// Finished reports whether this is the end.
func (s State) Finished() bool { return s == Done || s == Failed || s == Cancelled }

// Status is how far a job is.
type Status struct {
	ID    ID     `json:"id"`
	Kind  string `json:"kind"`
	Title string `json:"title,omitempty"`
	// as in Spec, or a numbered one since the first assignment
	Resource fence.Resource `json:"resource,omitempty"`
	// of the numbered resource that the job has; 0: it has none
	Number   int      `json:"number,omitempty"`
	State    State    `json:"state"`
	Priority int      `json:"priority,omitempty"`
	Labels   []string `json:"labels,omitempty"`
	Unique   string   `json:"unique,omitempty"`
	CleanUp  string   `json:"clean_up,omitempty"`
	Keep     Duration `json:"keep,omitempty"`
	Bytes    int      `json:"bytes,omitempty"` // of the job as it was submitted
	Every    string   `json:"every,omitempty"`
	// Paused: it is not assigned until Resume, and no further attempt or round of it begins.
	Paused bool `json:"paused,omitempty"`

	// Attempt counts assignments. What a worker publishes counts only under the present one.
	Attempt  int `json:"attempt,omitempty"`
	Failures int `json:"failures,omitempty"` // of this round
	Lost     int `json:"lost,omitempty"`     // how many workers were gone before they had finished
	Rounds   int `json:"rounds,omitempty"`   // how often a job that repeats has ended
	// Error is of the last failure, or why no try has begun, or why the result is not kept; at most
	// MaxError bytes.
	Error string `json:"error,omitempty"`

	Worker     fence.Token `json:"worker,omitempty"` // the ID of the member to which it is assigned
	WorkerName string      `json:"worker_name,omitempty"`
	ReturnedBy fence.Token `json:"returned_by,omitempty"` // the member that gave it back last
	Returned   time.Time   `json:"returned,omitzero"`     // when that was
	// of the term under which it runs or has ended
	Token fence.Token `json:"token,omitempty"`
	// RoundToken is the token of the first attempt of this round that has begun, of a job that
	// repeats. What an earlier round has written under its term has a lower one, if it has the same
	// issuer.
	RoundToken fence.Token `json:"round_token,omitempty"`

	Submitted time.Time `json:"submitted"`
	Due       time.Time `json:"due"` // it is not assigned before
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`   // of the last round
	Expires   time.Time `json:"expires,omitzero"` // the status is deleted some time after

	// Kept is how many bytes a finished job counts against MaxFinishedBytes.
	Kept int `json:"kept,omitempty"`

	// History has the attempts that have ended, also those of earlier rounds, the first one first, as
	// far as MaxHistory reaches.
	History []Attempt `json:"history,omitempty"`

	Result json.RawMessage `json:"result,omitempty"` // of the last round, at most MaxResult bytes
}

// Limits of a Status.
const (
	MaxResult = 100_000 // bytes
	MaxError  = 4_000   // bytes
	MaxLost   = 20      // a job that has lost more workers has failed: it may be what ends them

	// MaxFinished is how many finished jobs a group keeps. Of more, those are forgotten before their
	// time that would be the next ones. Jobs that have failed or were cancelled, which are kept for
	// longer, have half of it at most, so that they do not push out what was just done.
	MaxFinished = 10_000
	// MaxFinishedBytes is how many bytes their payloads, results and histories have together, and is
	// kept to in the same way. A coordinator has all of them in its memory.
	MaxFinishedBytes = 16 << 20
)

// ParseState checks a text: one of the states.
func ParseState(text string) (State, error) {
	all := []State{Waiting, Assigned, Running, Done, Failed, Cancelled}
	if !slices.Contains(all, State(text)) {
		return "", fmt.Errorf("%.40q is no state of a job: %q are", text, all)
	}
	return State(text), nil
}
