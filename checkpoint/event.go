package checkpoint

import "time"

// Event is one thing that happened to a task while it was run.
type Event struct {
	Kind       EventKind
	Checkpoint Checkpoint // as it is after the event
	Step       string     // which step, where it is about one
	Attempt    int        // Began, Retrying: which attempt of the step's, from 1
	// Ended: from the start of the last attempt until its checkpoint was durable
	Took     time.Duration
	Wait     time.Duration // Retrying: until the next attempt
	Err      error         // Retrying, Interrupted, Halted: why
	TakeOver TakeOver      // TookOver
}

// EventKind is what happened.
type EventKind string

const (
	// this process leads and has the checkpoint; nothing was run yet
	TookOver    EventKind = "took over"
	Began       EventKind = "began"       // an attempt of a step is about to be run
	Ended       EventKind = "ended"       // a step has ended and its checkpoint is durable
	Retrying    EventKind = "retrying"    // an attempt has failed; another one follows
	Interrupted EventKind = "interrupted" // the journal could not do it now; it is asked again
	Paused      EventKind = "paused"      // leadership is suspended: the next step waits
	Halted      EventKind = "stopped"     // a step has failed for good
	Completed   EventKind = "done"        // the last step of the last round has ended
)

// TakeOver is how long it took from one leader's last sign of life until the next one was about to
// run a step. Only Detection depends on the session timeout; the rest is what this process and its
// databases needed.
type TakeOver struct {
	// Detection: from the last checkpoint that the standby saw until the coordinator dropped the
	// old leader. It includes what the old leader still did in that time. 0: not known (nothing was
	// seen, nobody led, or Candidate.Observer is nil).
	Detection time.Duration `json:"detection"`
	Election  time.Duration `json:"election"` // until this process was elected. 0: not known
	// until the mark was raised on every store, and older sessions had ended
	Raise time.Duration `json:"raise"`
	// until the checkpoint was taken and the first step could begin
	FirstStep time.Duration `json:"first_step"`
	// the copy that the standby had was not the last checkpoint
	Reloaded bool `json:"reloaded"`
}

// tell notifies whoever wants to know.
func (t Task[S]) tell(e Event) {
	if t.Notify != nil {
		t.Notify(e)
	}
}
