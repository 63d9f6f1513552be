package guard

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// Ended is the error of a connection that the guard has ended by itself, for want of room or time. Server counts these
// in a metric, and logs each kind at most once a minute: they come in crowds.
type Ended string

const (
	Evicted Ended = "evicted"       // it kept the guard waiting for its client while others waited for room
	TooSlow Ended = "login_timeout" // it was not admitted in the time for a login
	Idle    Ended = "idle"          // it had no token, and its client has sent nothing for long
	Stuck   Ended = "stuck"         // its client does not read, and its session has ended or never was
	Crowded Ended = "too_many"      // there was no room for it, not even to wait
	Full    Ended = "full"          // the store has admitted it, and no admitted slot came free in the time of an admission
)

func (e Ended) Error() string { return "the guard has ended the connection: " + string(e) }

// dismissTime bounds each part of Dismiss.
const dismissTime = 100 * time.Millisecond

// Dismiss tells an evicted client why, and closes its connection. It takes no longer than a moment, whatever the client
// does: evictions come in crowds.
func Dismiss(c net.Conn, lastWord []byte) {
	for range 2 { // a process that stood still through the first try wrote nothing
		_ = c.SetWriteDeadline(time.Now().Add(dismissTime))
		if n, err := c.Write(lastWord); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	closeWithin(c, dismissTime)
}

// crowds counts what is not worth a line each.
type crowds struct {
	mu   sync.Mutex
	each map[Ended]*crowd
}

type crowd struct {
	logged time.Time
	since  int // events that are not logged yet
}

// log writes one line for an event and all like it since the last line, at most once a minute.
func (c *crowds) log(log *slog.Logger, protocol string, e Ended, client string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.each == nil {
		c.each = make(map[Ended]*crowd)
	}
	one := c.each[e]
	if one == nil {
		one = &crowd{}
		c.each[e] = one
	}
	one.since++
	if now := time.Now(); now.Sub(one.logged) >= quietFor {
		log.Warn("connections ended by the guard", "protocol", protocol, "reason", string(e), "connections", one.since, "last_client", client)
		one.logged, one.since = now, 0
	}
}
