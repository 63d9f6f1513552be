package marks

import (
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Event is one thing that happened to a resource, for logs and metrics.
type Event struct {
	Kind    EventKind
	Claim   fence.Claim
	Session SessionID
	// who opens the session; empty if another process has caused the event
	Client Client
	// Raised, Restored: the mark before. Adopted: the one that this process knew
	Before Mark
	Ended  int                    // Revoked: how many sessions were ended
	Took   time.Duration          // how long this took; Opened, Refused: the whole Admit
	Steps  map[Step]time.Duration // Finished: how long each step took
	Err    error                  // Refused, Finished: why the session was not admitted
}

// EventKind says what happened.
type EventKind string

const (
	Opened  EventKind = "admitted"
	Raised  EventKind = "raised"
	Revoked EventKind = "revoked"
	Refused EventKind = "refused"
	Closed  EventKind = "closed" // the connection of an admitted session is closed

	// Restored comes when this process has raised a mark again that the store had lost.
	Restored EventKind = "restored"

	// Adopted comes when this process finds that an operator has adopted the resource.
	Adopted EventKind = "adopted"

	// Finished comes at the end of everything that a guard does to admit a session.
	Finished EventKind = "finished"
)
