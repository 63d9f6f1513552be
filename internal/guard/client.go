package guard

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/internal/guard/relay"
)

// Client is one client: its connection, its seat, and the shutdown of the guard.
type Client struct {
	Seat     *Seat
	Draining context.Context // ends when the guard shuts down

	remote net.Addr // of the client itself, if a load balancer is in between

	conn  atomic.Pointer[net.Conn] // TLS and the relay replace it
	loops *relay.Loops             // nil: every relay has goroutines of its own
}

func newClient(
	conn net.Conn, remote net.Addr, seat *Seat, draining context.Context, loops *relay.Loops,
) *Client {
	c := &Client{Seat: seat, Draining: draining, remote: remote, loops: loops}
	c.Replace(conn)
	return c
}

// Conn returns the connection as it is now. Do not keep it.
func (c *Client) Conn() net.Conn { return *c.conn.Load() }

// Replace has the client use conn, which wraps the connection that it has used so far.
func (c *Client) Replace(conn net.Conn) { c.conn.Store(&conn) }

// Adopt prepares the client's connection and its server's for a relay. Use what it returns in place
// of server. Deadlines are gone afterwards.
func (c *Client) Adopt(server net.Conn) net.Conn {
	client, server := c.loops.Adopt(c.Conn(), server)
	c.Replace(client)
	return server
}

// These implement net.Conn.
func (c *Client) Read(b []byte) (int, error)         { return c.Conn().Read(b) }
func (c *Client) Write(b []byte) (int, error)        { return c.Conn().Write(b) }
func (c *Client) Close() error                       { return c.Conn().Close() }
func (c *Client) LocalAddr() net.Addr                { return c.Conn().LocalAddr() }
func (c *Client) RemoteAddr() net.Addr               { return c.remote }
func (c *Client) SetDeadline(t time.Time) error      { return c.Conn().SetDeadline(t) }
func (c *Client) SetReadDeadline(t time.Time) error  { return c.Conn().SetReadDeadline(t) }
func (c *Client) SetWriteDeadline(t time.Time) error { return c.Conn().SetWriteDeadline(t) }

// CloseWrite half-closes the connection.
func (c *Client) CloseWrite() error {
	relay.CloseWrite(c.Conn())
	return nil
}

// LastWordTime bounds the last message to a client.
const LastWordTime = 2 * time.Second

// LastWord tells the client why its connection ends, and closes it so that the message arrives. The
// end arrives together with the message, where that is possible: a driver that takes the message
// for the answer to a command and keeps the connection sees then that it is of no use.
func (c *Client) LastWord(b []byte) error {
	relay.Cork(c.Conn())
	err := lastWrite(c, b, LastWordTime)
	CloseGently(c)
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
