package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/console"
	"github.com/ringfence/ringfence/internal/relay"
)

// consoleDatabase is the database that a client without a token asks for to get the console. With a
// token it gets the real database of this name.
const consoleDatabase = "ringfence"

// wantsConsole reports whether a client that claims nothing asks for the console.
func (p *Protocol) wantsConsole(s *startup) bool {
	return len(p.o.Operators) > 0 && s.database() == consoleDatabase && s.get("replication") == ""
}

// consoleLogin returns the startup packet with which the server checks who a client of the console
// is. It names a database that exists. It has none of the client's options, and settings that fit
// what the console sends.
func (p *Protocol) consoleLogin(s *startup) []byte {
	return encodeStartup(s.granted(), []param{
		{"user", s.get("user")}, {"database", p.o.Store.Database()},
		{"application_name", "ringfence console"},
		{"client_encoding", "UTF8"}, {"DateStyle", "ISO"},
	})
}

// serveConsole answers the statements of a client that has logged in, if its role may use the
// console. It closes the upstream connection before it reads what the client sends after the login,
// so none of it can reach the database.
func (p *Protocol) serveConsole(ctx context.Context, l *login) error {
	l.abandon()
	if !slices.Contains(p.o.Operators, l.role) {
		return p.failAdmission(ctx, l, &loginError{
			code: insufficientPrivilege,
			what: fmt.Sprintf("role %q may not use the console of the guard", l.role),
			hint: "an operator adds the role to GUARD_POSTGRES_OPERATORS",
		})
	}
	_, _ = l.out.Write(l.ready)
	_ = l.client.SetDeadline(time.Now().Add(guard.LastWordTime))
	if l.out.Flush() != nil {
		return nil
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := &consoleConn{
		ctx: ctx, client: l.client, from: l.fromClient,
		idle: p.o.ConsoleIdle, stall: p.o.LoginTimeout,
	}
	stopWatching := l.client.WhenDraining(func() { end(errDrained) })
	unhook := relay.WhenOver(ctx, func() { _ = l.client.SetDeadline(relay.Past) })
	err := console.New(c, c, p.statements()).Run(ctx)
	stopWatching()
	unhook() // a deadline of its own is for the last message
	return c.end(err)
}

// consoleConn is the connection of a client of the console. While a read or write blocks, the guard
// counts as waiting for the client, which may lose its place to others.
type consoleConn struct {
	ctx    context.Context
	client *guard.Client
	from   *bufio.Reader
	idle   time.Duration // how long a read may take
	stall  time.Duration // how long a write may take
	cut    error         // of a write that has failed: the client may have got a part of a message
}

func (c *consoleConn) Read(b []byte) (int, error) {
	defer c.waiting(c.idle)()
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	return c.from.Read(b)
}

func (c *consoleConn) Write(b []byte) (n int, err error) {
	defer c.waiting(c.stall)()
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	n, c.cut = c.client.Write(b)
	return n, c.cut
}

// waiting begins a wait for the client. The caller then checks the context, whose end has moved the
// deadline, or will.
func (c *consoleConn) waiting(limit time.Duration) (over func()) {
	c.client.Seat.Resume()
	_ = c.client.SetDeadline(time.Now().Add(limit))
	return c.client.Seat.Working
}

// end closes the connection, and tells the client why, unless it has left by itself. It returns the
// error for guard.Protocol.
func (c *consoleConn) end(err error) error {
	c.client.Seat.Resume()
	cause := context.Cause(c.ctx)
	tell := func(m *pgproto3.ErrorResponse) {
		if c.cut == nil {
			_ = c.client.LastWord(encoded(m))
		}
	}
	switch {
	case errors.Is(cause, guard.Evicted):
		if c.cut == nil {
			guard.Dismiss(c.client, encoded(evicted()))
		}
		return guard.Evicted
	case cause != nil:
		tell(shuttingDown())
		return nil
	case errors.Is(c.cut, os.ErrDeadlineExceeded):
		return guard.Stuck
	case err == nil, c.cut != nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		tell(fatal(idleSessionTimeout, fmt.Sprintf("no statement for %s", c.idle), "",
			"connect again"))
		return guard.Idle
	}
	bad := violation("%v", err)
	tell(errorResponse(bad))
	return bad
}
