package agent

import (
	"context"
	"math"
	"net"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/network/unixsocket"
)

// client is what an agent knows of a client: how far it has read. It has read all that its socket
// no longer stores. Once it has sent a beat, its beats count in place of that.
type client struct {
	// that the socket stores; not every system and socket tells it
	unread func() (bytes int, told bool)

	mu            sync.Mutex
	before, after int       // unread when the last event was sent
	last          time.Time // the deadline in the last event
	until         time.Time // the one that the client has seen last
	beats         bool
}

// goesOn reports whether the client has read anything, or sent a beat, before the last deadline
// that it has seen. Call it before an event is sent.
func (c *client) goesOn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	bytes, told := c.unread()
	// the client may have taken some while the last event was sent
	took := bytes == 0 || bytes < c.after || c.after <= c.before
	if told && took && !c.beats {
		c.until = c.last
	}
	c.before = bytes
	return c.until.IsZero() || !told && !c.beats || time.Now().Before(c.until)
}

// sent records the deadline in an event that was sent.
func (c *client) sent(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.after, _ = c.unread()
	c.last = until
	if c.until.IsZero() {
		c.until = until
	}
}

// beat records that the client is alive.
func (c *client) beat() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beats, c.until = true, c.last
}

// left is the time until goesOn may be false; shortest if that has passed.
func (c *client) left() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, told := c.unread(); !told && !c.beats || c.until.IsZero() {
		return math.MaxInt64
	}
	return max(shortest, time.Until(c.until))
}

// connection is the key of a request's connection in its context.
type connection struct{}

// Connected keeps the connection of requests, whose socket tells what the client has not read. It
// is for http.Server.ConnContext.
func Connected(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connection{}, c)
}

// unreadOf returns what tells how many bytes the client of a request has not read.
func unreadOf(ctx context.Context) func() (int, bool) {
	if c, ok := ctx.Value(connection{}).(*net.UnixConn); ok {
		return func() (int, bool) { return unixsocket.Unread(c) }
	}
	// the kernel takes what is sent by TCP, whether the program reads or not
	return func() (int, bool) { return 0, false }
}
