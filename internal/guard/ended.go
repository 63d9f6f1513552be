package guard

import (
	"net"
	"time"
)

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

// dismissTime bounds each part of Dismiss.
const dismissTime = 100 * time.Millisecond

// Dismiss tells an evicted client why, and closes its connection. It takes only a moment, whatever
// the client does, because evictions come in crowds.
func Dismiss(c net.Conn, lastWord []byte) {
	_ = lastWrite(c, lastWord, dismissTime)
	closeWithin(c, dismissTime)
}

// endedConn is a connection that the guard has ended.
type endedConn struct {
	reason Ended
	client string
}

// logEnded logs n connections that were ended for the same reason; e is the last one.
func (s *Server) logEnded(e endedConn, n int) {
	s.Log.Warn("connections ended by the guard", "protocol", s.Protocol.Name(),
		"reason", string(e.reason), "connections", n, "last_client", e.client)
}
