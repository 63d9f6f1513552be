package guard

import (
	"io"
	"net"
	"time"

	"github.com/ringfence/ringfence/internal/relay"
)

// CloseGently closes a connection so that what was written arrives. It half-closes the connection
// and discards what the client still sends for at most a second: closing with unread bytes would
// reset the connection, and the client might lose what was written.
func CloseGently(c net.Conn) { closeWithin(c, time.Second) }

func closeWithin(c net.Conn, d time.Duration) {
	relay.CloseWrite(c)
	for range 2 { // if this process was paused during the first half, it read nothing
		_ = c.SetReadDeadline(time.Now().Add(d / 2))
		_, _ = io.Copy(io.Discard, io.LimitReader(c, 1<<19))
	}
	_ = c.Close()
}
