package checkpoint

import "time"

// Event is one thing that happened to a task while it was run.
type Event struct {
	Kind       EventKind
	Checkpoint Checkpoint // after the event
	Step       string     // the name of the step, if the event is about one
	Attempt    int        // Began, Ended, Retrying, Halted: the attempt, from 1

	// Took is the time from the start of the last attempt until its checkpoint was durable (Ended).
	Took     time.Duration
	Wait     time.Duration // Retrying, Interrupted: until the next attempt
	Err      error         // Retrying, Interrupted, Halted: why
	TakeOver TakeOver      // TookOver
}

// EventKind is what happened.
type EventKind string

const (
	TookOver    EventKind = "took over"   // this process leads and has read the checkpoint
	Began       EventKind = "began"       // an attempt of a step begins
	Ended       EventKind = "ended"       // a step has ended and its checkpoint is durable
	Retrying    EventKind = "retrying"    // an attempt has failed; another one follows
	Interrupted EventKind = "interrupted" // the journal, a store or the term failed; Wait, then retry
	Paused      EventKind = "paused"      // the term is suspended: the next step waits
	Halted      EventKind = "stopped"     // a step has failed for good
	Completed   EventKind = "done"        // the last step of the last round has ended
)

// TakeOver says how long a take-over took, in four parts, from the old leader's last checkpoint to
// the new leader's first step. Only Detection depends on the session timeout.
type TakeOver struct {
	// Detection ends when the coordinator drops the old leader. It begins with the last checkpoint
	// that the standby saw, so it includes work that the old leader still did. 0 if not known: no
	// checkpoint was seen, nobody led, or Runner.Observer is nil.
	Detection time.Duration `json:"detection"`
	// Election ends when this process is elected. 0 if not known.
	Election time.Duration `json:"election"`
	// Raise ends when the mark is raised on every store and older sessions have ended.
	Raise time.Duration `json:"raise"`
	// FirstStep ends when the checkpoint is read and the first step can begin.
	FirstStep time.Duration `json:"first_step"`

	// Reloaded says that the standby's copy was not the last checkpoint.
	Reloaded bool `json:"reloaded"`
}

// notify calls Notify, if it is set.
func (t Task[S]) notify(e Event) {
	if t.Notify != nil {
		t.Notify(e)
	}
}
