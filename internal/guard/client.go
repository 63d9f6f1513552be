package guard

import (
	"context"
	"net"
	"sync"
	"time"
)

// Client is one client: its connection, its seat, and the shutdown of the guard. TLS or the PROXY
// protocol replaces Conn, so a Protocol must not keep Conn itself.
type Client struct {
	net.Conn
	Seat     *Seat
	Draining <-chan struct{} // closed when the guard shuts down
}

// CloseWrite half-closes the connection.
func (c *Client) CloseWrite() error {
	closeWrite(c.Conn)
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
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-c.Draining:
			f()
		case <-over:
		}
	}()
	return sync.OnceFunc(func() {
		close(over)
		<-watched
	})
}

// Limit gives a connection limited time for a login, and ends its calls when ctx ends. stop undoes
// the latter and reports whether ctx had not ended before; then the deadline belongs to the caller.
// stop may be called twice.
func Limit(ctx context.Context, c net.Conn, limit time.Duration) (stop func() bool) {
	_ = c.SetDeadline(time.Now().Add(limit))
	cut := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = c.SetDeadline(Past)
	})
	return sync.OnceValue(func() bool {
		if unhook() {
			return true
		}
		<-cut
		return false
	})
}

// Past is a deadline that ends the calls that are under way.
var Past = time.Unix(1, 0)
