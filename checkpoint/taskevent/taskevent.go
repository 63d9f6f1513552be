// Package taskevent has the kinds of events that a task reports while it runs, and the parts of a
// take-over.
package taskevent

import "time"

// Kind is what happened.
type Kind string

const (
	TookOver    Kind = "took over"   // this process leads and has read the checkpoint
	Began       Kind = "began"       // an attempt of a step begins
	Ended       Kind = "ended"       // a step has ended and its checkpoint is durable
	Retrying    Kind = "retrying"    // an attempt has failed; another one follows
	Interrupted Kind = "interrupted" // the journal, a store or the term failed; Wait, then retry
	Paused      Kind = "paused"      // the term is suspended: the next step waits
	Halted      Kind = "stopped"     // a step has failed for good
	Completed   Kind = "done"        // the last step of the last round has ended
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
