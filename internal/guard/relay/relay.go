package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Walker follows the messages of one direction of a session. It passes bytes on as they came, and
// re-encodes nothing.
type Walker interface {
	// Walk looks at b, which starts where the last Walk stopped, and writes to w what may pass, in as
	// few calls as it can. It returns how many bytes of b it is done with. The rest comes again with
	// more behind it, so a Walker must not wait for a message that is longer than the relay's buffer
	// (BufferSize). An error ends the session.
	Walk(b []byte, w io.Writer) (done int, err error)
}

// Side is one end of a relay.
type Side int

const (
	ClientSide Side = iota + 1
	ServerSide
)

// End says how a relay ended: which side left or failed first, and the error, or nil after an
// orderly end of stream.
type End struct {
	Side Side
	Err  error
}

// Past is a deadline that ends the calls that are under way.
var Past = time.Unix(1, 0)

// Linger is how long a relay waits for a client that has sent its last byte and does not read.
const Linger = 5 * time.Second

// Leg is one connection of a relay.
type Leg struct {
	net.Conn
	Early []byte // what the handshake has read and not used
}

// Relay passes bytes both ways between a client and a server.
type Relay struct {
	ctx    context.Context
	flows  [2]*flow
	ends   chan End // of both directions, in the order in which they came
	unhook func() bool
	done   func() // waits for what the directions were started with
}

// Start starts a relay that goes on until one side or ctx ends. The connections must have no
// deadlines. alive is asked about a client that does not read. The caller must Wait.
//
// When the client leaves, or has only sent its last byte, the relay half-closes the server's
// connection. The server finishes what it was sent, as it does for a client of its own. When the
// server leaves, the client's connection stays open: the caller sets a write deadline, says why,
// and closes it. When ctx ends, both directions stop where they are.
func Start(ctx context.Context, client, server Leg, up, down Walker, alive Liveness) *Relay {
	r := &Relay{ctx: ctx, ends: make(chan End, 2)}
	toClient := &patient{ctx: ctx, alive: alive}
	upward := &flow{walker: up, early: client.Early, from: ClientSide, to: ServerSide}
	upward.ended = func(e End) {
		r.ends <- e
		toClient.linger()
		if ctx.Err() != nil {
			return // the hook has stopped both; TLS would wait for a server that does not read
		}
		CloseWrite(upward.out.w.(net.Conn))
	}
	downward := &flow{walker: down, early: server.Early, from: ServerSide, to: ClientSide}
	downward.ended = func(e End) {
		r.ends <- e
		_ = client.SetReadDeadline(Past)
		_ = server.SetWriteDeadline(Past) // a writer stuck in a dead server must see it too
	}
	r.flows = [2]*flow{upward, downward}
	r.unhook = WhenOver(ctx, func() {
		_ = client.SetDeadline(Past)
		_ = server.SetDeadline(Past)
	})
	r.done = start(client.Conn, server.Conn, upward, downward, toClient)
	return r
}

// Activity returns a number that rises before a Walker sees what has come from either side: nothing
// was passed on in between if it is the same twice. idle is false while something is being passed
// on, perhaps to a peer that is slow to read.
func (r *Relay) Activity() (n uint64, idle bool) {
	up, down := r.flows[0].steps.Load(), r.flows[1].steps.Load()
	return up + down, up%2 == 0 && down%2 == 0
}

// Wait returns when both directions have stopped.
func (r *Relay) Wait() End {
	first, second := <-r.ends, <-r.ends
	defer r.unhook() // or it might change the deadlines that the caller sets next
	r.done()
	var c *crash
	if errors.As(first.Err, &c) || errors.As(second.Err, &c) {
		panic(c) // in the goroutine that serves this client, where it ends this one connection
	}
	if r.ctx.Err() != nil && errors.Is(first.Err, os.ErrDeadlineExceeded) {
		first.Err = context.Cause(r.ctx)
	}
	return first
}

// WhenOver calls f once ctx ends. stop reports whether f was not called; otherwise it waits until f
// has returned. It may be called twice.
func WhenOver(ctx context.Context, f func()) (stop func() bool) {
	returned := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(returned)
		f()
	})
	return sync.OnceValue(func() bool {
		if unhook() {
			return true
		}
		<-returned
		return false
	})
}

// CloseWrite half-closes a connection, or closes it if that is impossible.
func CloseWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = c.Close()
}
