package job

import (
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Attempt is an attempt that has ended, in the history of a Status.
type Attempt struct {
	Attempt int         `json:"attempt"`          // as Status.Attempt counts
	Round   int         `json:"round,omitempty"`  // of a job that repeats, from 1
	Worker  string      `json:"worker,omitempty"` // its name
	Token   fence.Token `json:"token,omitempty"`  // 0 if it did not begin
	Started time.Time   `json:"started,omitzero"` // zero if it did not begin
	Ended   time.Time   `json:"ended"`
	Outcome Outcome     `json:"outcome"`
	Error   string      `json:"error,omitempty"` // the beginning of what Status.Error said
}

// Outcome is how an attempt has ended.
type Outcome string

// Outcomes of an attempt.
const (
	OutcomeDone      Outcome = "done"
	OutcomeFailed    Outcome = "failed"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeLost      Outcome = "lost"     // its worker was gone
	OutcomeReturned  Outcome = "returned" // its worker gave it back: it stopped, or could not begin
)

// MaxHistory is how many bytes the history of a job has as JSON. Of more attempts the first ones
// are dropped.
const MaxHistory = 4_000
