package checkpoint

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Checkpoint is a task's durable next step and state: what the next leader goes on from.
type Checkpoint struct {
	Task     Name           `json:"task"`
	Resource fence.Resource `json:"resource"` // the election whose leader runs the task
	Version  int64          `json:"version"`  // counts what was published; 0: nothing yet
	Nonce    string         `json:"nonce"`    // of this publish, so that its author knows it again
	Token    fence.Token    `json:"token"`    // the term that published it
	Holder   string         `json:"holder"`   // who that was, for people

	Run    int64    `json:"run"`    // counts from 1; a restart begins the next one
	Round  int64    `json:"round"`  // counts from 1; a round is one pass over the steps
	Rounds int64    `json:"rounds"` // how many there are; Forever: no last one
	Step   int      `json:"step"`   // the next step, from 0; len(Steps) once the task is done
	Steps  []string `json:"steps"`  // their names, in order, as the task had them
	Hash   string   `json:"hash"`   // the fingerprint of Steps, to compare them by

	Status  Status          `json:"status"`
	Failure *Failure        `json:"failure,omitempty"` // why it is Stopped
	State   json.RawMessage `json:"state"`
	// by the clock of whoever published it: for people, never for a decision
	Saved time.Time `json:"saved"`
}

// Status says what is to be done with a checkpoint.
type Status string

const (
	Running Status = "running" // run the next step
	// the start of the next step is recorded, its end is not: see Step.Unfinished
	Started Status = "started"
	Stopped Status = "stopped" // a step failed for good, an operator decides: Resume or Restart
	Done    Status = "done"    // every round has ended
)

// Failure is why a task is stopped.
type Failure struct {
	Step     string    `json:"step"`
	Attempts int       `json:"attempts"`
	Message  string    `json:"message"`
	Stack    string    `json:"stack,omitempty"` // of a panic
	At       time.Time `json:"at"`
}

// Forever is the number of rounds of a task without a last one.
const Forever int64 = -1

// Next is the name of the next step, "" when there is none.
func (c Checkpoint) Next() string {
	if c.Step < 0 || c.Step >= len(c.Steps) {
		return ""
	}
	return c.Steps[c.Step]
}

// Key is the idempotency key of the next step.
func (c Checkpoint) Key() Key {
	return Key{Task: c.Task, Run: c.Run, Round: c.Round, Step: c.Next()}
}

// advance is the checkpoint after the next step has ended with this state.
func (c Checkpoint) advance(state json.RawMessage) Checkpoint {
	c.Status, c.Failure, c.State = Running, nil, state
	c.Step++
	if c.Step < len(c.Steps) {
		return c
	}
	// a task may have been given fewer than it has begun
	if c.Rounds != Forever && c.Round >= c.Rounds {
		c.Status = Done
		return c
	}
	c.Round++
	c.Step = 0
	return c
}

// stop is the checkpoint of a task whose next step has failed for good.
func (c Checkpoint) stop(f Failure) Checkpoint {
	c.Status, c.Failure = Stopped, &f
	return c
}

// clone shares nothing with c.
func (c Checkpoint) clone() Checkpoint {
	c.Steps, c.State = slices.Clone(c.Steps), slices.Clone(c.State)
	if c.Failure != nil {
		f := *c.Failure
		c.Failure = &f
	}
	return c
}
