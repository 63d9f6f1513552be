package guard

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/ringfence/ringfence/internal/guard/relay"
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

// lastWrite writes the last message to a client within d, or within twice that: if this process was
// paused during the first try, it wrote nothing.
func lastWrite(c net.Conn, b []byte, d time.Duration) error {
	var n int
	var err error
	for range 2 {
		_ = c.SetWriteDeadline(time.Now().Add(d))
		n, err = c.Write(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	return err
}

// dismissTime bounds each part of Dismiss.
const dismissTime = 100 * time.Millisecond

// Dismiss tells an evicted client why, and closes its connection. It takes only a moment, whatever
// the client does, because evictions come in crowds.
func Dismiss(c net.Conn, lastWord []byte) {
	_ = lastWrite(c, lastWord, dismissTime)
	closeWithin(c, dismissTime)
}
