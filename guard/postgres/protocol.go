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
	"github.com/ringfence/ringfence/guard"
	"github.com/ringfence/ringfence/store"
	pgstore "github.com/ringfence/ringfence/store/postgres"
)

// Options of a Protocol. Store and Admission are required.
type Options struct {
	Store     *pgstore.Store
	Admission *store.Admission

	LoginTimeout time.Duration    // from the first byte to ReadyForQuery, admission apart; 30 s when zero
	Resources    []fence.Resource // the only resources that may be claimed; any when empty
}

// Protocol serves Postgres clients. It implements guard.Protocol.
type Protocol struct{ o Options }

var _ guard.Protocol = (*Protocol)(nil)

// New makes a Protocol.
func New(o Options) *Protocol {
	if o.LoginTimeout == 0 {
		o.LoginTimeout = 30 * time.Second
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
	_ = client.SetDeadline(time.Now().Add(time.Second))
	if s, err := readStartup(bufio.NewReader(client), client); err == nil && !s.cancel {
		_ = send(client, fatal(tooManyConnections, why, "nothing was sent to the database", "try again later, or raise the limit in the guard's settings"))
	}
	guard.CloseGently(client)
}

// Serve is guard.Protocol's.
func (p *Protocol) Serve(ctx context.Context, client net.Conn, draining <-chan struct{}) error {
	_ = client.SetDeadline(time.Now().Add(p.o.LoginTimeout))
	unhook := context.AfterFunc(ctx, func() { _ = client.SetDeadline(time.Unix(1, 0)) })
	defer unhook()

	from := bufio.NewReader(client)
	s, err := readStartup(from, client)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, errDirectTLS):
		return nil
	case err != nil:
		return p.refuse(client, err)
	case s.cancel:
		return p.cancelQuery(ctx, s)
	}
	claims, err := p.claims(s, client)
	if err != nil {
		return p.refuse(client, err)
	}
	server, err := p.dial(ctx)
	if err != nil {
		return p.refuse(client, fmt.Errorf("the guard cannot reach Postgres: %w", err))
	}
	defer server.Close()
	_ = server.SetDeadline(time.Now().Add(p.o.LoginTimeout))

	l := newLogin(client, from, server, s)
	packet, unknown, capped := s.negotiated()
	l.unknown, l.capped, l.minor = unknown, capped, s.granted()
	if err := l.run(packet); err != nil {
		return p.failed(client, err)
	}
	return p.open(ctx, l, s, claims, draining)
}

func newLogin(client net.Conn, from *bufio.Reader, server net.Conn, s *startup) *login {
	return &login{
		client: client, fromClient: from, out: bufio.NewWriter(client),
		server: server, fromServer: bufio.NewReader(server),
	}
}

// claims are the client's, if this guard serves them.
func (p *Protocol) claims(s *startup, client net.Conn) ([]fence.Claim, error) {
	claims, err := s.claims(s.holder(client))
	if err != nil {
		return nil, err
	}
	if len(claims) == 0 {
		return nil, noToken()
	}
	for _, c := range claims {
		if len(p.o.Resources) > 0 && !slices.Contains(p.o.Resources, c.Resource) {
			return nil, unknownResource(c, p.o.Resources)
		}
	}
	return claims, nil
}

// open admits the session whose login has succeeded, tells the client that it is ready, and relays.
func (p *Protocol) open(ctx context.Context, l *login, s *startup, claims []fence.Claim, draining <-chan struct{}) error {
	_ = l.client.SetDeadline(time.Time{})
	_ = l.server.SetDeadline(time.Time{})
	sess, err := p.o.Store.Identify(ctx, pgstore.Leg{
		PID: l.pid, User: s.get("user"), Database: s.get("database"), Local: l.server.LocalAddr(),
	})
	if err == nil {
		err = p.o.Admission.Admit(ctx, sess, claims)
	}
	if err != nil {
		_ = l.out.Flush()
		return p.refuse(l.client, err)
	}
	defer p.release(ctx, sess)
	if _, err := l.out.Write(l.ready); err != nil {
		return err
	}
	if err := l.out.Flush(); err != nil {
		return err
	}
	return p.relay(ctx, l, claims, draining)
}

// release forgets the session once its backend has ended; the leg is closed by then.
func (p *Protocol) release(ctx context.Context, sess store.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = p.o.Store.Release(ctx, sess) // a record that stays is swept later
}

func (p *Protocol) relay(ctx context.Context, l *login, claims []fence.Claim, draining <-chan struct{}) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	state := &session{status: 'I', idle: func() { stop(errDrained) }}
	watched := make(chan struct{})
	over := make(chan struct{})
	go func() { // owned by this call, which waits for it
		defer close(watched)
		select {
		case <-draining:
			state.drain()
		case <-over:
		}
	}()
	toServer, toClient := &up{session: state}, &down{session: state}
	end := guard.Relay(ctx, l.client, l.fromClient, guard.Buffered{Conn: l.server, From: l.fromServer}, toServer, toClient)
	close(over)
	<-watched
	l.server.Close()
	return p.ended(ctx, l.client, toClient, end, claims)
}

// ended tells a client whose session is over why, where a message may begin.
func (p *Protocol) ended(ctx context.Context, client net.Conn, d *down, end guard.End, claims []fence.Claim) error {
	if end.Side == guard.ClientSide && ctx.Err() == nil {
		return clientError(end.Err)
	}
	_ = client.SetDeadline(time.Now().Add(2 * time.Second))
	if d.boundary() {
		p.lastWord(ctx, client, d, claims)
	}
	guard.CloseGently(client)
	return nil
}

func (p *Protocol) lastWord(ctx context.Context, client net.Conn, d *down, claims []fence.Claim) {
	if ctx.Err() != nil {
		_ = send(client, fatal(adminShutdown, "the guard is shutting down", "", "connect again, with the same token if this process still leads"))
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if why := p.o.Admission.Ended(ctx, claims); why != nil {
		_ = send(client, errorResponse(why))
		return
	}
	_ = forward(client, d.ended)
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
func (p *Protocol) refuse(client net.Conn, err error) error {
	_ = client.SetDeadline(time.Now().Add(2 * time.Second))
	_ = send(client, errorResponse(err))
	guard.CloseGently(client)
	return err
}

// failed ends a login that did not succeed.
func (p *Protocol) failed(client net.Conn, err error) error {
	switch {
	case errors.Is(err, errRefusedByServer):
		guard.CloseGently(client)
		return nil
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return p.refuse(client, violation("login was not finished within %s", p.o.LoginTimeout))
	}
	return p.refuse(client, err)
}
