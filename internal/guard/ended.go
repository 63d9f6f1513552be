package guard

import "fmt"

// Ended is the error of a connection that the guard has ended for lack of room or time. Server
// counts these in a metric and logs each kind at most once a minute, because they come in crowds.
type Ended string

const (
	Evicted Ended = "evicted"       // its client kept the guard waiting while others waited for room
	TooSlow Ended = "login_timeout" // it was not admitted within the time for a login
	Idle    Ended = "idle"          // it had no token, and its client sent nothing for too long
	// its client does not read, and it has no session, or none any more
	Stuck   Ended = "stuck"
	Unused  Ended = "idle_session" // it was admitted, and nothing has passed for the idle timeout
	Demoted Ended = "demoted"      // its server is not the primary any more, or cannot be watched
	Crowded Ended = "too_many"     // there was not even room for it to wait
	NoRoom  Ended = "server_full"  // the server takes no more connections
	Full    Ended = "full"         // the store admitted it, but no admitted slot came free in time
)

func (e Ended) Error() string { return "the guard has ended the connection: " + string(e) }

// FullError means that all slots for admitted sessions are taken.
type FullError struct{ Max int }

func (e FullError) Error() string {
	return fmt.Sprintf("the guard has its %d admitted sessions already", e.Max)
}

// AtMost returns how many there are.
func (e FullError) AtMost() int { return e.Max }

// Unwrap returns Full, by which it is counted.
func (e FullError) Unwrap() error { return Full }
