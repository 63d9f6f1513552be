package postgres

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
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

	Sessions guard.Looker  // asked about sessions whose client does not read; the Store when nil
	Stall    time.Duration // how long a client may take nothing before that is asked; guard.Alive's when zero
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
func (p *Protocol) Refuse(client net.Conn, why string) {
	_ = client.SetDeadline(time.Now().Add(3 * time.Second))
	if s, err := readStartup(bufio.NewReader(client), client); err == nil && !s.cancel {
		_ = send(client, fatal(tooManyConnections, why, "nothing was sent to the database", "try again later, or raise the limit in the guard's settings"))
	}
	guard.CloseGently(client)
}

// Serve is guard.Protocol's.
func (p *Protocol) Serve(ctx context.Context, client net.Conn, seat *guard.Seat, draining <-chan struct{}) error {
	login, leave := context.WithTimeout(ctx, p.o.LoginTimeout) // a shutdown ends it: no transaction is open yet
	defer leave()
	stopWatching := watch(draining, leave)
	defer stopWatching()
	unhook := p.limit(login, client)
	defer unhook()

	seat.Waiting()
	from := bufio.NewReader(client)
	s, err := readStartup(from, client)
	seat.Working()
	switch {
	case errors.Is(err, errDirectTLS):
		return nil
	case err != nil:
		unhook()
		return p.failed(login, seat, client, err)
	case s.cancel:
		return p.cancelQuery(ctx, seat, s)
	}
	claims, server, err := p.reach(login, seat, s, client)
	if err != nil {
		unhook()
		p.report(err, s.holder(client))
		return p.failed(login, seat, client, err)
	}
	defer server.Close()
	unhookServer := p.limit(login, server)
	defer unhookServer()

	l := newLogin(client, from, seat, server, s)
	if err := l.run(); err != nil {
		unhook()
		return p.broken(login, l, err)
	}
	stopWatching()
	if !unhook() || !unhookServer() {
		return p.broken(login, l, context.Cause(login))
	}
	return p.open(ctx, l, s, claims, draining)
}

// reach dials the leg of a client whose claims are not known to be stale, once there is a slot for its login. It looks
// twice, for the mark may rise while the client waits for that: a crowd of deposed clients costs the server no login.
func (p *Protocol) reach(ctx context.Context, seat *guard.Seat, s *startup, client net.Conn) ([]fence.Claim, net.Conn, error) {
	claims, err := p.claims(s, client)
	if err != nil {
		return nil, nil, err
	}
	if err := p.o.Admission.Known(ctx, claims); err != nil {
		return nil, nil, err
	}
	if err := seat.Login(ctx); err != nil {
		return nil, nil, err
	}
	if err := p.o.Admission.Known(ctx, claims); err != nil {
		return nil, nil, err
	}
	server, err := p.dial(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("the guard cannot reach Postgres: %w", err)
	}
	return claims, server, nil
}

// limit gives one side of a login its time, and cuts it short when ctx ends. stop takes the latter back and tells
// whether it came in time; after it the deadline is the caller's. It may be called twice.
func (p *Protocol) limit(ctx context.Context, c net.Conn) (stop func() bool) {
	_ = c.SetDeadline(time.Now().Add(p.o.LoginTimeout))
	cut := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = c.SetDeadline(time.Unix(1, 0))
	})
	return sync.OnceValue(func() bool {
		if unhook() {
			return true
		}
		<-cut
		return false
	})
}

func newLogin(client net.Conn, from *bufio.Reader, seat *guard.Seat, server net.Conn, s *startup) *login {
	l := &login{
		client: client, fromClient: from, out: bufio.NewWriter(client), seat: seat,
		server: server, fromServer: bufio.NewReader(server),
	}
	l.packet, l.unknown, l.capped = s.negotiated()
	l.minor = s.granted()
	return l
}

// claims are the client's, if this guard serves them.
func (p *Protocol) claims(s *startup, client net.Conn) ([]fence.Claim, error) {
	claims, err := s.claims(s.holder(client))
	if err != nil {
		return nil, err
	}
	if len(claims) == 0 {
		return nil, refusal.NoOption()
	}
	for _, c := range claims {
		if len(p.o.Resources) > 0 && !slices.Contains(p.o.Resources, c.Resource) {
			return nil, refusal.UnknownResource(c, p.o.Resources)
		}
	}
	return claims, nil
}

// open admits the session whose login has succeeded, tells the client that it is ready, and relays.
func (p *Protocol) open(ctx context.Context, l *login, s *startup, claims []fence.Claim, draining <-chan struct{}) error {
	_ = l.client.SetDeadline(time.Time{})
	_ = l.server.SetDeadline(time.Time{})
	admission, cancel := context.WithTimeout(ctx, cmp.Or(p.o.Admission.Timeout, 10*time.Second)) // for all of it
	defer cancel()
	sess, err := p.identify(admission, l, s)
	if err == nil {
		err = p.o.Admission.Admit(admission, sess, claims)
	}
	if err == nil {
		defer p.release(ctx, sess)
		err = l.seat.Admit(admission)
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
	return p.relay(ctx, l, sess, claims, draining)
}

// unadmitted ends a login that the server has taken and the guard has not.
func (p *Protocol) unadmitted(ctx context.Context, l *login, err error) error {
	if ctx.Err() != nil { // the guard has ended it, whatever the admission makes of that
		return p.broken(ctx, l, err)
	}
	l.abandon()
	_ = l.client.SetDeadline(time.Now().Add(2 * time.Second))
	_ = l.out.Flush()
	return p.refuse(l.seat, l.client, err)
}

// report tells of a claim that was refused before it came to admission.
func (p *Protocol) report(err error, holder string) {
	var r *fence.Refusal
	if errors.As(err, &r) && p.o.Admission.Notify != nil {
		c := r.Claim
		c.Holder = holder
		p.o.Admission.Notify(marks.Event{Kind: marks.Refused, Claim: c, Err: err})
	}
}

// release forgets the session once its backend has ended; the leg is closed by then.
func (p *Protocol) release(ctx context.Context, sess marks.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = p.o.Store.Release(ctx, sess) // a record that stays is swept later
}

func (p *Protocol) relay(ctx context.Context, l *login, sess marks.Session, claims []fence.Claim, draining <-chan struct{}) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	state := &session{status: 'I', idle: func() { stop(errDrained) }}
	stopWatching := watch(draining, state.drain)
	defer stopWatching() // also when a walker panics
	toServer, toClient := &up{session: state}, &down{session: state}
	end := guard.Relay(ctx, l.client, l.fromClient, guard.Buffered{Conn: l.server, From: l.fromServer}, toServer, toClient,
		guard.Look(p.o.Sessions, sess, p.o.Stall))
	stopWatching()
	l.server.Close()
	l.seat.Leave()
	return p.ended(ctx, l.client, toClient, end, claims)
}

// ended tells a client whose session is over why, where a message may begin.
func (p *Protocol) ended(ctx context.Context, client net.Conn, d *down, end guard.End, claims []fence.Claim) error {
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

func (p *Protocol) lastWord(ctx context.Context, client net.Conn, d *down, claims []fence.Claim) {
	var why error
	drained := ctx.Err() != nil
	if !drained {
		why = p.o.Admission.Ended(ctx, claims)
	}
	_ = client.SetDeadline(time.Now().Add(2 * time.Second)) // the asking may have taken longer than that
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
func (p *Protocol) refuse(seat *guard.Seat, client net.Conn, err error) error {
	seat.Waiting()
	_ = client.SetDeadline(time.Now().Add(2 * time.Second))
	_ = send(client, errorResponse(err))
	guard.CloseGently(client)
	return err
}

// broken is failed for a login that the server has begun to answer. What it has said comes first: a part of it may be on its
// way, and an error may not stand behind half a message.
func (p *Protocol) broken(ctx context.Context, l *login, err error) error {
	l.abandon()
	_ = l.client.SetDeadline(time.Now().Add(2 * time.Second))
	if l.out.Flush() != nil {
		return errors.Join(err, ended(ctx, err))
	}
	return p.failed(ctx, l.seat, l.client, err)
}

// failed ends a login that did not succeed. The leg is closed by then.
func (p *Protocol) failed(ctx context.Context, seat *guard.Seat, client net.Conn, err error) error {
	seat.EndLogin()
	switch why := ended(ctx, err); {
	case errors.Is(err, errRefusedByServer):
		seat.Waiting()
		guard.CloseGently(client)
		return nil
	case errors.Is(why, guard.Evicted):
		guard.Dismiss(client, encoded(evicted()))
		return why
	case errors.Is(why, guard.TooSlow):
		_ = p.refuse(seat, client, violation("login was not finished within %s", p.o.LoginTimeout))
		return why
	case ctx.Err() != nil:
		_ = client.SetDeadline(time.Now().Add(2 * time.Second))
		_ = send(client, shuttingDown())
		guard.CloseGently(client)
		return nil
	case errors.Is(err, io.EOF):
		return nil
	}
	return p.refuse(seat, client, err)
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
