package pgguard

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard/databases"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

// Options of a Protocol. Store and Admission are required.
type Options struct {
	Name string // in logs and metrics; postgres when empty

	// Store and Admission are those of the home database, which is always open.
	Store     *pgmarks.Store
	Admission *marks.Admission

	// Another opens another database of the same server, without dialing. If it is nil, the Protocol
	// serves the home database only.
	Another func(database string) (*Database, error)
	// Databases are the only ones that clients may ask for, besides the home database; any when empty.
	Databases []string
	// MaxDatabases limits how many databases are open at once; 20 when zero.
	MaxDatabases int
	// DatabaseIdle is how long another database stays open without a client; 5 min when zero.
	DatabaseIdle time.Duration

	// LoginTimeout bounds the time from the first byte to ReadyForQuery, without the admission;
	// 30 s when zero.
	LoginTimeout time.Duration
	// IdleTimeout ends a session through which nothing has passed for so long, outside transactions;
	// never when zero.
	IdleTimeout time.Duration
	// Resources are the only ones that may be claimed; any when empty.
	Resources []fence.Resource

	TLS guard.TLS // of clients; the Store's URL says how the server is reached

	Audit *guard.Audit // gets the refusals in databases that are not open; may be nil

	// Sessions reports whether the session of a client that does not read still lives; the Store of
	// its database when nil.
	Sessions guard.SessionProber
	// Stall is how long a client may read nothing before Sessions is queried; 5 s when zero.
	Stall time.Duration
}

// Protocol serves Postgres clients. It implements guard.Protocol.
type Protocol struct {
	o         Options
	databases *databases.Set
	// the server had no connection for a leader, and no login has succeeded since
	full atomic.Bool
}

var (
	_ guard.Protocol = (*Protocol)(nil)
	_ guard.Several  = (*Protocol)(nil)
	_ guard.Bounded  = (*Protocol)(nil)
	_ guard.Keeper   = (*Protocol)(nil)
)

// New returns a Protocol for a server. It listens for raises by other processes until it is closed.
func New(o Options) *Protocol {
	o.Name = cmp.Or(o.Name, "postgres")
	o.LoginTimeout = cmp.Or(o.LoginTimeout, 30*time.Second)
	return &Protocol{o: o, databases: databases.New(databases.Options{
		Home: Database{Store: o.Store, Admission: o.Admission}, Another: o.Another,
		Max: o.MaxDatabases, Idle: o.DatabaseIdle,
	})}
}

// Name returns the name in the Options.
func (p *Protocol) Name() string { return p.o.Name }

// Close closes the stores, and with them the guard's own connections.
func (p *Protocol) Close() { p.databases.Close() }

// Refuse reads the client's request, because a client reads no answer before it has sent one, and
// refuses it.
func (p *Protocol) Refuse(c *guard.Client, why string) {
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	if _, s, err := p.greet(context.Background(), c); err == nil && !s.Cancel {
		answer := &wire.Error{
			Code: wire.TooManyConnections, Message: why, Detail: "nothing was sent to the database",
			Hint: "try again later, or raise the limit in the guard's settings",
		}
		if c.Draining.Err() != nil {
			answer = wire.Unavailable
		}
		_, _ = c.Write(wire.Fatal(answer))
	}
	guard.CloseGently(c)
}

// Serve implements guard.Protocol.
func (p *Protocol) Serve(ctx context.Context, c *guard.Client) error {
	var client opened
	_ = guard.OnOwnStack(func() error {
		client = p.open(ctx, c)
		return nil
	})
	return client.serve(ctx)
}

// opened is what the first request of a client has come to: gone, refused, a cancelRequest or a
// *session.
type opened interface {
	serve(ctx context.Context) error
}

// gone is a client that has sent no request, or nothing that this guard understands.
type gone struct{}

func (gone) serve(context.Context) error { return nil }

// refused is a client that has got its answer, and the error for Serve.
type refused struct{ err error }

func (r refused) serve(context.Context) error { return r.err }

// cancelRequest asks the server to cancel the statement of another session.
type cancelRequest struct {
	p       *Protocol
	client  *guard.Client
	startup *startup
}

func (r cancelRequest) serve(ctx context.Context) error {
	return r.p.forwardCancel(ctx, r.client, r.startup)
}

// open reads the first request of a client, relays its login, and admits its session.
func (p *Protocol) open(ctx context.Context, c *guard.Client) opened {
	// A shutdown of the guard cancels a login: no transaction is open yet.
	loginCtx, cancel := context.WithTimeout(ctx, p.o.LoginTimeout)
	defer cancel()
	stopWatching := c.WhenDraining(cancel)
	defer stopWatching()
	unhook := guard.Limit(loginCtx, c, p.o.LoginTimeout)
	defer unhook()

	c.Seat.Waiting()
	from, s, err := p.greet(loginCtx, c)
	c.Seat.Working()
	if err == nil && !s.Cancel {
		err = p.checkTLS(c, s)
	}
	var handshake *handshakeError
	switch {
	case errors.Is(err, wire.ErrDirectTLS), errors.Is(err, wire.ErrLength):
		return gone{}
	case errors.As(err, &handshake):
		return refused{p.failHandshake(loginCtx, handshake)}
	case err != nil:
		unhook()
		return refused{p.failLogin(loginCtx, c, err)}
	case s.Cancel:
		return cancelRequest{p, c, s}
	}
	l := &login{p: p, client: c, fromClient: from, startup: s, at: p.place(s)}
	var admitted *session
	defer func() {
		if admitted == nil {
			l.at.Leave()
		}
	}()
	who := s.client(c)
	admitted, err = l.open(marks.WithClient(ctx, who), marks.WithClient(loginCtx, who),
		func() bool { stopWatching(); return unhook() })
	if admitted == nil {
		return refused{err}
	}
	return admitted
}

// open relays the login, for as long as loginCtx lasts, and admits the session. It returns no
// session if the client is gone or was refused; the error is for Serve. inTime ends the limits of
// the login, and reports whether it has kept them.
func (l *login) open(
	ctx, loginCtx context.Context, inTime func() bool,
) (admitted *session, err error) {
	defer l.over()
	if err := l.connect(loginCtx); err != nil {
		inTime()
		l.p.report(loginCtx, l.at, err, l.startup.holder(l.client))
		return nil, l.p.failLogin(loginCtx, l.client, err)
	}
	if err := l.logIn(loginCtx); err != nil {
		inTime()
		return nil, l.abort(loginCtx, err)
	}
	l.over()
	if !inTime() {
		return nil, l.abort(loginCtx, context.Cause(loginCtx))
	}
	return l.enter(ctx)
}

// refuse sends err to a client that is not admitted, and closes its connection.
func (p *Protocol) refuse(c *guard.Client, err error) error {
	c.Seat.Waiting()
	_ = c.LastWord(wire.Fatal(err))
	return err
}

// failLogin ends a login that has no upstream connection, or none any more.
func (p *Protocol) failLogin(ctx context.Context, c *guard.Client, err error) error {
	c.Seat.EndLogin()
	switch why := endedByGuard(ctx, err); {
	case errors.Is(err, errRefusedByServer):
		c.Seat.Waiting()
		guard.CloseGently(c)
		if errors.Is(err, guard.NoRoom) {
			return guard.NoRoom
		}
		return nil
	case errors.Is(why, guard.Evicted):
		guard.Dismiss(c, wire.Fatal(wire.Evicted))
		return why
	case errors.Is(why, guard.TooSlow):
		_ = p.refuse(c, wire.Violation("login was not finished within %s", p.o.LoginTimeout))
		return why
	case ctx.Err() != nil:
		_ = c.LastWord(wire.Fatal(wire.Unavailable))
		return nil
	case errors.Is(err, io.EOF):
		return nil
	}
	return p.refuse(c, err)
}

// endedByGuard returns the guard.Ended with which the guard itself ended a login, or nil.
func endedByGuard(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, guard.Evicted), errors.Is(err, guard.Evicted):
		return guard.Evicted
	case errors.Is(cause, context.DeadlineExceeded),
		cause == nil && errors.Is(err, os.ErrDeadlineExceeded):
		return guard.TooSlow
	}
	return nil
}
