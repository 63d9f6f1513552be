package postgres

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	pgstore "github.com/ringfence/ringfence/internal/marks/postgres"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Options of a Protocol. Store and Admission are required.
type Options struct {
	Name string // in logs and metrics; postgres when empty

	// Store and Admission are those of the home database, which is always open.
	Store     *pgstore.Store
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

	// ReadOnly admits sessions without a token, and lets them only read. Otherwise they are refused.
	ReadOnly bool

	// Operators are the roles that may use the console, which lists the refusals that Audit
	// remembers. There is no console if no role is named.
	Operators []string
	Audit     *guard.Audit
	// ConsoleIdle is how long a client of the console may send nothing; 5 min when zero.
	ConsoleIdle time.Duration

	// Sessions reports whether the session of a client that does not read still lives; the Store of
	// its database when nil.
	Sessions guard.Sessions
	// Stall is how long a client may read nothing before Sessions is queried; 5 s when zero.
	Stall time.Duration
}

// Protocol serves Postgres clients. It implements guard.Protocol.
type Protocol struct {
	o         Options
	databases *databases
	readers   readers
	asking    chan struct{} // holds a value while a statement of a console reads the stores
}

var (
	_ guard.Protocol = (*Protocol)(nil)
	_ guard.Several  = (*Protocol)(nil)
)

// New returns a Protocol for a server. It listens for raises by other processes until it is closed.
func New(o Options) *Protocol {
	o.Name = cmp.Or(o.Name, "postgres")
	o.MaxDatabases = cmp.Or(o.MaxDatabases, databasesMost)
	o.DatabaseIdle = cmp.Or(o.DatabaseIdle, unusedFor)
	if o.LoginTimeout == 0 {
		o.LoginTimeout = 30 * time.Second
	}
	if o.ConsoleIdle == 0 {
		o.ConsoleIdle = 5 * time.Minute
	}
	return &Protocol{o: o, databases: newDatabases(o), asking: make(chan struct{}, 1)}
}

// Name returns the name in the Options.
func (p *Protocol) Name() string { return p.o.Name }

// Close closes the stores, and with them the guard's own connections.
func (p *Protocol) Close() { p.databases.closeAll() }

// Refuse reads the client's request, because a client reads no answer before it has sent one, and
// refuses it.
func (p *Protocol) Refuse(c *guard.Client, why string) {
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	if _, s, err := p.greet(context.Background(), c); err == nil && !s.cancel {
		answer := fatal(tooManyConnections, why, "nothing was sent to the database",
			"try again later, or raise the limit in the guard's settings")
		if c.Draining.Err() != nil {
			answer = unavailable()
		}
		_ = send(c, answer)
	}
	guard.CloseGently(c)
}

// Serve implements guard.Protocol.
func (p *Protocol) Serve(ctx context.Context, c *guard.Client) error {
	var s *session
	err := guard.Apart(func() (err error) {
		s, err = p.open(ctx, c)
		return err
	})
	if s == nil {
		return err
	}
	return s.wait(ctx)
}

// open relays the login of a client and admits its session. It returns no session if the client is
// gone, was refused, or wanted none; the error is for Serve.
func (p *Protocol) open(ctx context.Context, c *guard.Client) (admitted *session, err error) {
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
	if err == nil && !s.cancel {
		err = p.checkTLS(c, s)
	}
	var handshake *handshakeError
	switch {
	case errors.Is(err, errDirectTLS), errors.Is(err, errLength):
		return nil, nil
	case errors.As(err, &handshake):
		return nil, p.failHandshake(loginCtx, handshake)
	case err != nil:
		unhook()
		return nil, p.failLogin(loginCtx, c, err)
	case s.cancel:
		return nil, p.forwardCancel(ctx, c, s)
	}
	who := s.client(c)
	ctx, loginCtx = marks.WithClient(ctx, who), marks.WithClient(loginCtx, who)
	at := p.place(s)
	defer func() {
		if admitted == nil {
			at.leave()
		}
	}()
	claims, server, err := p.connect(loginCtx, c, s, at)
	if err != nil {
		unhook()
		p.report(loginCtx, at, err, s.holder(c))
		return nil, p.failLogin(loginCtx, c, err)
	}
	unhookServer := guard.Limit(loginCtx, server, p.o.LoginTimeout)
	defer unhookServer()

	l := newLogin(c, from, server, s)
	l.bindable = sameCertificate(p.o.TLS, c.Encrypted(), encryption(server))
	console := len(claims) == 0 && p.wantsConsole(s)
	readOnly := len(claims) == 0 && !console
	switch {
	case console:
		l.packet = p.consoleLogin(s)
	case readOnly:
		l.packet = readOnlyLogin(s)
	}
	if err := l.run(); err != nil {
		unhook()
		return nil, p.abortLogin(loginCtx, l, err)
	}
	stopWatching()
	if !unhook() || !unhookServer() {
		return nil, p.abortLogin(loginCtx, l, context.Cause(loginCtx))
	}
	switch {
	case console:
		return nil, p.serveConsole(ctx, l)
	case readOnly:
		return nil, p.serveReadOnly(ctx, l, s)
	}
	return p.enter(ctx, l, s, claims, at)
}

// connect dials the upstream connection of a client, once there is a slot for its login and unless
// its claims are known to be stale. It checks the claims twice, because the mark may rise while the
// client waits for the slot: a crowd of deposed clients costs the server no login.
func (p *Protocol) connect(
	ctx context.Context, c *guard.Client, s *startup, at *place,
) ([]marks.Presented, net.Conn, error) {
	claims, err := p.claims(s, c)
	if err != nil {
		return nil, nil, err
	}
	if len(claims) > 0 || !p.wantsConsole(s) {
		if err := p.serves(at.name); err != nil {
			return nil, nil, err
		}
	}
	if err := at.precheck(ctx, claims); err != nil {
		return nil, nil, err
	}
	if err := c.Seat.Login(ctx); err != nil {
		return nil, nil, err
	}
	if err := at.precheck(ctx, claims); err != nil {
		return nil, nil, err
	}
	server, err := p.o.Store.Dial(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("the guard cannot reach Postgres: %w", err)
	}
	return claims, server, nil
}

// claims returns the client's claims, if this guard serves them. There are none only if the client
// asks for the console, or may read without a token.
func (p *Protocol) claims(s *startup, c *guard.Client) ([]marks.Presented, error) {
	claims, err := s.claims(s.holder(c))
	if err != nil {
		return nil, err
	}
	if len(claims) == 0 && (p.wantsConsole(s) || p.o.ReadOnly) {
		return nil, nil
	}
	if len(claims) == 0 {
		return nil, refusal.NoOption()
	}
	for _, c := range claims {
		if len(p.o.Resources) > 0 && !slices.Contains(p.o.Resources, c.Resource) {
			return nil, refusal.UnknownResource(c.Under(""), p.o.Resources)
		}
	}
	return claims, nil
}

// enter admits the session of a successful login and sends the client ReadyForQuery.
func (p *Protocol) enter(
	ctx context.Context, l *login, s *startup, claims []marks.Presented, at *place,
) (*session, error) {
	_ = l.client.SetDeadline(time.Time{})
	_ = l.server.SetDeadline(time.Time{})
	if err := p.reach(ctx, at, claims); err != nil {
		defer l.server.Close()
		return nil, p.failAdmission(ctx, l, err)
	}
	id, err := p.admit(ctx, l, s, claims, at.db)
	admitted := &session{p: p, at: at, client: l.client, server: l.server, id: id, claims: claims}
	if err != nil {
		defer admitted.close(ctx)
		return nil, p.failAdmission(ctx, l, err)
	}
	if _, err := l.out.Write(l.ready); err != nil {
		admitted.close(ctx)
		return nil, err
	}
	if err := l.out.Flush(); err != nil {
		admitted.close(ctx)
		return nil, err
	}
	admitted.start(ctx, unused(l.fromClient), unused(l.fromServer))
	return admitted, nil
}

// unused returns what a reader has read ahead.
func unused(r *bufio.Reader) []byte {
	ahead, _ := r.Peek(r.Buffered())
	return bytes.Clone(ahead)
}

// admit identifies the session and admits it, in the time for one admission. Whenever the session
// may be registered it returns it, with an error too.
func (p *Protocol) admit(
	ctx context.Context, l *login, s *startup, claims []marks.Presented, in *database,
) (sess marks.Session, err error) {
	ctx, cancel := context.WithTimeout(ctx, in.Admission.Limit())
	defer cancel()
	ctx, steps := marks.WithSteps(ctx)
	defer func() { in.Admission.Finish(ctx, steps, claims[0].Under(""), err) }()
	identified, err := p.identify(ctx, l, s, in)
	if err != nil {
		return marks.Session{}, err
	}
	if err := in.Admission.Admit(ctx, identified, claims); err != nil {
		return marks.Session{}, err
	}
	defer marks.StepSlot.Begin(ctx)()
	return identified, l.client.Seat.Admit(ctx)
}

// failAdmission ends a login that the server accepted and the guard did not.
func (p *Protocol) failAdmission(ctx context.Context, l *login, err error) error {
	if ctx.Err() != nil { // the guard has ended the connection, whatever err says
		return p.abortLogin(ctx, l, err)
	}
	l.abandon()
	_ = l.client.SetDeadline(time.Now().Add(guard.LastWordTime))
	_ = l.out.Flush()
	return p.refuse(l.client, err)
}

// refuse sends err to a client that is not admitted, and closes its connection.
func (p *Protocol) refuse(c *guard.Client, err error) error {
	c.Seat.Waiting()
	_ = c.LastWord(encoded(errorResponse(err)))
	return err
}

// abortLogin ends a login that has an upstream connection. What the server has sent goes out first:
// the client may have got a part of it, and an error must not follow half a message.
func (p *Protocol) abortLogin(ctx context.Context, l *login, err error) error {
	l.abandon()
	_ = l.client.SetDeadline(time.Now().Add(guard.LastWordTime))
	if l.out.Flush() != nil {
		return errors.Join(err, endedByGuard(ctx, err))
	}
	return p.failLogin(ctx, l.client, err)
}

// failLogin ends a login that has no upstream connection, or none any more.
func (p *Protocol) failLogin(ctx context.Context, c *guard.Client, err error) error {
	c.Seat.EndLogin()
	switch why := endedByGuard(ctx, err); {
	case errors.Is(err, errRefusedByServer):
		c.Seat.Waiting()
		guard.CloseGently(c)
		return nil
	case errors.Is(why, guard.Evicted):
		guard.Dismiss(c, encoded(evicted()))
		return why
	case errors.Is(why, guard.TooSlow):
		_ = p.refuse(c, violation("login was not finished within %s", p.o.LoginTimeout))
		return why
	case ctx.Err() != nil:
		_ = c.LastWord(encoded(unavailable()))
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
