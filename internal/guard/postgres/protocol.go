package postgres

import (
	"bufio"
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
	Store     *pgstore.Store
	Admission *marks.Admission

	LoginTimeout time.Duration    // from the first byte to ReadyForQuery, admission apart; 30 s when zero
	Resources    []fence.Resource // the only resources that may be claimed; any when empty

	Sessions guard.Sessions  // asked about sessions whose client does not read; the Store when nil
	Stall    time.Duration // how long a client may take nothing before that is asked; 5 s when zero
}

// Protocol serves Postgres clients. It implements guard.Protocol.
type Protocol struct{ o Options }

var _ guard.Protocol = (*Protocol)(nil)

// New makes a Protocol.
func New(o Options) *Protocol {
	if o.LoginTimeout == 0 {
		o.LoginTimeout = 30 * time.Second
	}
	if o.Sessions == nil {
		o.Sessions = o.Store
	}
	return &Protocol{o}
}

// Name is "postgres".
func (p *Protocol) Name() string { return "postgres" }

// Ready asks the store whether it can be used.
func (p *Protocol) Ready(ctx context.Context) error { return p.o.Store.Probe(ctx) }

// Close ends the control connections.
func (p *Protocol) Close() { p.o.Store.Close() }

// Refuse reads what the client asks for, as it would not listen before, and answers no.
func (p *Protocol) Refuse(c *guard.Client, why string) {
	_ = c.SetDeadline(time.Now().Add(3 * time.Second))
	if s, err := readStartup(bufio.NewReader(c), c); err == nil && !s.cancel {
		_ = send(c, fatal(tooManyConnections, why, "nothing was sent to the database", "try again later, or raise the limit in the guard's settings"))
	}
	guard.CloseGently(c)
}

// Serve is guard.Protocol's.
func (p *Protocol) Serve(ctx context.Context, c *guard.Client) error {
	login, leave := context.WithTimeout(ctx, p.o.LoginTimeout) // a shutdown ends it: no transaction is open yet
	defer leave()
	stopWatching := c.WhenDraining(leave)
	defer stopWatching()
	unhook := guard.Limit(login, c, p.o.LoginTimeout)
	defer unhook()

	c.Seat.Waiting()
	from := bufio.NewReader(c)
	s, err := readStartup(from, c)
	c.Seat.Working()
	switch {
	case errors.Is(err, errDirectTLS):
		return nil
	case err != nil:
		unhook()
		return p.failed(login, c, err)
	case s.cancel:
		return p.cancelQuery(ctx, c, s)
	}
	claims, server, err := p.reach(login, c, s)
	if err != nil {
		unhook()
		p.o.Admission.Report(err, s.holder(c))
		return p.failed(login, c, err)
	}
	defer server.Close()
	unhookServer := guard.Limit(login, server, p.o.LoginTimeout)
	defer unhookServer()

	l := newLogin(c, from, server, s)
	if err := l.run(); err != nil {
		unhook()
		return p.broken(login, l, err)
	}
	stopWatching()
	if !unhook() || !unhookServer() {
		return p.broken(login, l, context.Cause(login))
	}
	return p.open(ctx, l, s, claims)
}

// reach dials the upstream connection of a client whose claims are not known to be stale, once there
// is a slot for its login. It asks twice, because the mark may rise while the client waits for the
// slot: a crowd of deposed clients costs the server no login.
func (p *Protocol) reach(ctx context.Context, c *guard.Client, s *startup) ([]marks.Presented, net.Conn, error) {
	claims, err := p.claims(s, c)
	if err != nil {
		return nil, nil, err
	}
	if err := p.o.Admission.Precheck(ctx, claims); err != nil {
		return nil, nil, err
	}
	if err := c.Seat.Login(ctx); err != nil {
		return nil, nil, err
	}
	if err := p.o.Admission.Precheck(ctx, claims); err != nil {
		return nil, nil, err
	}
	server, err := p.o.Store.Dial(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("the guard cannot reach Postgres: %w", err)
	}
	return claims, server, nil
}

// claims returns the client's claims, if this guard serves them.
func (p *Protocol) claims(s *startup, c *guard.Client) ([]marks.Presented, error) {
	claims, err := s.claims(s.holder(c))
	if err != nil {
		return nil, err
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

// open admits the session whose login has succeeded, tells the client that it is ready, and relays.
func (p *Protocol) open(ctx context.Context, l *login, s *startup, claims []marks.Presented) error {
	_ = l.client.SetDeadline(time.Time{})
	_ = l.server.SetDeadline(time.Time{})
	sess, err := p.admit(ctx, l, s, claims)
	if sess != (marks.Session{}) {
		defer p.o.Admission.Release(ctx, sess)
	}
	if err != nil {
		return p.unadmitted(ctx, l, err)
	}
	if _, err := l.out.Write(l.ready); err != nil {
		return err
	}
	if err := l.out.Flush(); err != nil {
		return err
	}
	return p.relay(ctx, l, sess, claims)
}

// admit identifies the session and admits it, in the time for one admission. It returns the session
// if that may be registered, with an error too.
func (p *Protocol) admit(ctx context.Context, l *login, s *startup, claims []marks.Presented) (sess marks.Session, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.o.Admission.Limit())
	defer cancel()
	ctx, steps := marks.WithSteps(ctx)
	defer func() { p.o.Admission.Finish(steps, claims[0].Under(""), err) }()
	identified, err := p.identify(ctx, l, s)
	if err != nil {
		return marks.Session{}, err
	}
	if err := p.o.Admission.Admit(ctx, identified, claims); err != nil {
		return marks.Session{}, err
	}
	defer marks.StepSlot.Begin(ctx)()
	return identified, l.client.Seat.Admit(ctx)
}

// unadmitted ends a login that the server has taken and the guard has not.
func (p *Protocol) unadmitted(ctx context.Context, l *login, err error) error {
	if ctx.Err() != nil { // the guard has ended it, whatever the admission makes of that
		return p.broken(ctx, l, err)
	}
	l.abandon()
	_ = l.client.SetDeadline(time.Now().Add(guard.LastWordTime))
	_ = l.out.Flush()
	return p.refuse(l.client, err)
}

func (p *Protocol) relay(ctx context.Context, l *login, sess marks.Session, claims []marks.Presented) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	state := &session{status: 'I', idle: func() { stop(errDrained) }}
	stopWatching := l.client.WhenDraining(state.drain)
	defer stopWatching() // also when a walker panics
	toServer, toClient := &up{session: state}, &down{session: state}
	end := guard.Relay(ctx, l.client, l.fromClient, guard.Buffered{Conn: l.server, From: l.fromServer}, toServer, toClient,
		guard.LivenessOf(p.o.Sessions, sess, p.o.Stall))
	stopWatching()
	l.server.Close()
	l.client.Seat.Leave()
	return p.ended(ctx, l.client, toClient, end, claims)
}

// ended tells a client whose session is over why, where a message may begin.
func (p *Protocol) ended(ctx context.Context, client *guard.Client, d *down, end guard.End, claims []marks.Presented) error {
	if end.Side == guard.ClientSide && ctx.Err() == nil {
		return clientError(end.Err)
	}
	if errors.Is(end.Err, guard.Stuck) {
		return guard.Stuck
	}
	if d.mayEnd() {
		p.lastWord(ctx, client, d, claims)
	}
	guard.CloseGently(client)
	return nil
}

func (p *Protocol) lastWord(ctx context.Context, client *guard.Client, d *down, claims []marks.Presented) {
	var why error
	drained := ctx.Err() != nil
	if !drained {
		why = p.o.Admission.Ended(ctx, claims)
	}
	_ = client.SetDeadline(time.Now().Add(guard.LastWordTime)) // the asking may have taken longer than that
	switch {
	case drained:
		_ = send(client, shuttingDown())
	case why != nil:
		_ = send(client, errorResponse(why))
	default:
		_ = d.forward(client, d.ended)
	}
}

// clientError is nil for a client that left, however it did.
func clientError(err error) error {
	var bad *protocolError
	if errors.As(err, &bad) {
		return err
	}
	return nil
}

// refuse answers a client that is not admitted.
func (p *Protocol) refuse(c *guard.Client, err error) error {
	c.Seat.Waiting()
	_ = c.LastWord(encoded(errorResponse(err)))
	return err
}

// broken is failed for a login that the server has begun to answer. What it has said comes first: a part of it may be on its
// way, and an error may not stand behind half a message.
func (p *Protocol) broken(ctx context.Context, l *login, err error) error {
	l.abandon()
	_ = l.client.SetDeadline(time.Now().Add(guard.LastWordTime))
	if l.out.Flush() != nil {
		return errors.Join(err, ended(ctx, err))
	}
	return p.failed(ctx, l.client, err)
}

// failed ends a login that did not succeed. The upstream connection is closed by then.
func (p *Protocol) failed(ctx context.Context, c *guard.Client, err error) error {
	c.Seat.EndLogin()
	switch why := ended(ctx, err); {
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
		_ = c.LastWord(encoded(shuttingDown()))
		return nil
	case errors.Is(err, io.EOF):
		return nil
	}
	return p.refuse(c, err)
}

// ended is how the guard itself has ended a login, nil when it has not.
func ended(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, guard.Evicted), errors.Is(err, guard.Evicted):
		return guard.Evicted
	case errors.Is(cause, context.DeadlineExceeded), cause == nil && errors.Is(err, os.ErrDeadlineExceeded):
		return guard.TooSlow
	}
	return nil
}
