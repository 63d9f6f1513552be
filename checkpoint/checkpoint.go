package checkpoint

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Checkpoint is a task's durable next step and state. The next leader continues from it.
type Checkpoint struct {
	Task     Name           `json:"task"`
	Resource fence.Resource `json:"resource"` // the election whose leader runs the task
	Version  int64          `json:"version"`  // counts what was published; 0: nothing yet
	// random; tells this publish and its repetitions from others
	Nonce string      `json:"nonce"`
	Token fence.Token `json:"token"` // of the term that published it
	// of that token; "" if an earlier version published it
	Issuer fence.Issuer `json:"issuer,omitempty"`
	Holder string       `json:"holder"` // of that term, for people

	Run    int64    `json:"run"`    // counts from 1; a restart begins the next one
	Round  int64    `json:"round"`  // counts from 1; a round is one pass over the steps
	Rounds int64    `json:"rounds"` // how many rounds there are, or Forever
	Step   int      `json:"step"`   // the next step, from 0; len(Steps) once the task is done
	Steps  []string `json:"steps"`  // the names of the task's steps, in order

	Status  Status          `json:"status"`
	Failure *Failure        `json:"failure,omitempty"` // why it is Stopped
	State   json.RawMessage `json:"state"`
	// Saved is the time on the publisher's clock. It is for people; no decision uses it.
	Saved time.Time `json:"saved"`
}

// Status says what is to be done with a checkpoint.
type Status string

const (
	Running Status = "running" // run the next step
	Started Status = "started" // the next step has begun and may have ended: see Step.Unfinished
	Stopped Status = "stopped" // a step failed for good; an operator decides: Resume or Restart
	Done    Status = "done"    // every round has ended
)

// Failure says why a task is stopped.
type Failure struct {
	Step     string    `json:"step"`
	Attempts int       `json:"attempts"`
	Message  string    `json:"message"`
	Stack    string    `json:"stack,omitempty"` // of a panic
	At       time.Time `json:"at"`
}

// Forever is the number of rounds of a task without a last one.
const Forever int64 = -1

// Next returns the name of the next step, or "" if there is none.
func (c Checkpoint) Next() string {
	if c.Step < 0 || c.Step >= len(c.Steps) {
		return ""
	}
	return c.Steps[c.Step]
}

// Key returns the idempotency key of the next step.
func (c Checkpoint) Key() Key {
	return Key{Task: c.Task, Run: c.Run, Round: c.Round, Step: c.Next()}
}

// advance returns the checkpoint after the next step has ended with this state.
func (c Checkpoint) advance(state json.RawMessage) Checkpoint {
	c.Status, c.Failure, c.State = Running, nil, state
	c.Step++
	if c.Step < len(c.Steps) {
		return c
	}
	// >=, because a task may have been given fewer rounds than it has begun
	if c.Rounds != Forever && c.Round >= c.Rounds {
		c.Status = Done
		return c
	}
	c.Round++
	c.Step = 0
	return c
}

// stop returns the checkpoint after the next step has failed for good.
func (c Checkpoint) stop(f Failure) Checkpoint {
	c.Status, c.Failure = Stopped, &f
	return c
}

// clone returns a copy that shares nothing with c.
func (c Checkpoint) clone() Checkpoint {
	c.Steps, c.State = slices.Clone(c.Steps), slices.Clone(c.State)
	if c.Failure != nil {
		f := *c.Failure
		c.Failure = &f
	}
	return c
}
