package guard

import (
	"context"
	"net"
	"time"

	"github.com/ringfence/ringfence/internal/relay"
)

// Client is one client: its connection, its seat, and the shutdown of the guard. TLS or the PROXY
// protocol replaces Conn, so a Protocol must not keep Conn itself.
type Client struct {
	net.Conn
	Seat     *Seat
	Draining context.Context // ends when the guard shuts down

	loops *relay.Loops // nil: every relay has goroutines of its own
}

// Upstream returns a connection to use in place of server: one that Relay can relay in the loop of
// this client. Call it before the first byte.
func (c *Client) Upstream(server net.Conn) net.Conn { return c.loops.Adopt(server, c.Conn) }

// CloseWrite half-closes the connection.
func (c *Client) CloseWrite() error {
	relay.CloseWrite(c.Conn)
	return nil
}

// LastWordTime bounds the last message to a client.
const LastWordTime = 2 * time.Second

// LastWord tells the client why its connection ends, and closes it so that the message arrives.
func (c *Client) LastWord(b []byte) error {
	_ = c.SetDeadline(time.Now().Add(LastWordTime))
	_, err := c.Write(b)
	CloseGently(c.Conn)
	return err
}

// WhenDraining calls f once the guard shuts down. stop waits until f has returned or cannot be
// called any more; it may be called twice.
func (c *Client) WhenDraining(f func()) (stop func()) {
	stopped := relay.WhenOver(c.Draining, f)
	return func() { stopped() }
}

// Limit gives a connection limited time for a login, and ends its calls when ctx ends. stop undoes
// the latter and reports whether ctx had not ended before; then the deadline belongs to the caller.
// stop may be called twice.
func Limit(ctx context.Context, c net.Conn, limit time.Duration) (stop func() bool) {
	_ = c.SetDeadline(time.Now().Add(limit))
	return relay.WhenOver(ctx, func() { _ = c.SetDeadline(relay.Past) })
}
