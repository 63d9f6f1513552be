package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/postgres/wire"
	"github.com/ringfence/ringfence/internal/guard/relay"
)

var errDrained = errors.New("the guard is shutting down")

// Serve answers a client that has logged in, until it leaves, or has sent nothing for so long (idle), or
// does not read (stall). from has what it sends. The error is for guard.Protocol.
func Serve(
	ctx context.Context, client *guard.Client, from io.Reader, statements []Statement, idle, stall time.Duration,
) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := &conn{ctx: ctx, client: client, from: from, idle: idle, stall: stall}
	stopWatching := client.WhenDraining(func() { end(errDrained) })
	unhook := relay.WhenOver(ctx, func() { _ = client.SetDeadline(relay.Past) })
	err := New(c, c, statements).Run(ctx)
	stopWatching()
	unhook() // a deadline of its own is for the last message
	return c.end(err)
}

// conn is the connection of a client. While a read or write blocks, the guard counts as waiting for the
// client, which may lose its place to others.
type conn struct {
	ctx    context.Context
	client *guard.Client
	from   io.Reader
	idle   time.Duration // how long a read may take
	stall  time.Duration // how long a write may take
	cut    error         // of a write that has failed: the client may have got a part of a message
}

func (c *conn) Read(b []byte) (int, error) {
	defer c.waiting(c.idle)()
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.from.Read(b)
}

func (c *conn) Write(b []byte) (n int, err error) {
	defer c.waiting(c.stall)()
	if err := cmp.Or(c.cut, context.Cause(c.ctx)); err != nil {
		return 0, err
	}
	n, c.cut = c.client.Write(b)
	return n, c.cut
}

// waiting begins a wait for the client. The caller then checks the context, whose end has moved the
// deadline, or will.
func (c *conn) waiting(limit time.Duration) (over func()) {
	c.client.Seat.Resume()
	_ = c.client.SetDeadline(time.Now().Add(limit))
	return c.client.Seat.Working
}

// end closes the connection, and tells the client why, unless it has left by itself. It returns the
// error for guard.Protocol.
func (c *conn) end(err error) error {
	c.client.Seat.Resume()
	cause := context.Cause(c.ctx)
	tell := func(why error) {
		if c.cut == nil {
			_ = c.client.LastWord(wire.Fatal(why))
		}
	}
	switch {
	case errors.Is(cause, guard.Evicted):
		if c.cut == nil {
			guard.Dismiss(c.client, wire.Fatal(wire.Evicted))
		}
		return guard.Evicted
	case cause != nil:
		tell(wire.ShuttingDown)
		return nil
	case errors.Is(c.cut, os.ErrDeadlineExceeded):
		return guard.Stuck
	case err == nil, c.cut != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		tell(&wire.Error{
			Code: wire.IdleSessionTimeout, Message: fmt.Sprintf("no statement for %s", c.idle), Hint: "connect again",
		})
		return guard.Idle
	}
	bad := wire.Violation("%v", err)
	tell(bad)
	return bad
}
