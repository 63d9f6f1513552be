package guard

import (
	"context"
	"net"
	"sync"
	"time"
)

// Client is one client: its connection, its place among the others, and the guard's shutdown. Whatever
// wraps a client's connection (TLS, the PROXY protocol) replaces Conn, so a Protocol never keeps it.
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

// LastWordTime bounds the last words to a client.
const LastWordTime = 2 * time.Second

// LastWord tells the client why its connection ends, and closes it so that the words arrive.
func (c *Client) LastWord(b []byte) error {
	_ = c.SetDeadline(time.Now().Add(LastWordTime))
	_, err := c.Write(b)
	CloseGently(c.Conn)
	return err
}

// WhenDraining calls f once the guard shuts down. stop waits until f has returned or cannot be called
// any more; it may be called twice.
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

// Limit gives a connection its time for a login, and cuts it short when ctx ends. stop takes the
// latter back and tells whether it came in time; after it the deadline is the caller's. It may be
// called twice.
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

// Past is a deadline that ends a call that is under way.
var Past = time.Unix(1, 0)
