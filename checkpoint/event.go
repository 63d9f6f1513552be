package checkpoint

import (
	"time"

	"github.com/ringfence/ringfence/checkpoint/taskevent"
)

// Event is one thing that happened to a task while it was run.
type Event struct {
	Kind       taskevent.Kind
	Checkpoint Checkpoint // after the event
	Step       string     // the name of the step, if the event is about one
	Attempt    int        // Began, Ended, Retrying, Halted: the attempt, from 1

	// Took is the time from the start of the last attempt until its checkpoint was durable (Ended).
	Took     time.Duration
	Wait     time.Duration      // Retrying, Interrupted: until the next attempt
	Err      error              // Retrying, Interrupted, Halted: why
	TakeOver taskevent.TakeOver // TookOver
}

// notify calls Notify, if it is set.
func (t Task[S]) notify(e Event) {
	if t.Notify != nil {
		t.Notify(e)
	}
}
