package redisguard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Options configure a Protocol. Store and Admission are required.
type Options struct {
	Name string // in logs and metrics; redis when empty

	Store     *redismarks.Store
	Admission *marks.Admission

	// LoginTimeout ends a connection that has got nothing but errors from the server, or nothing at
	// all; 30 s when zero.
	LoginTimeout time.Duration

	// IdleTimeout ends a connection without a token whose client sends nothing; 5 min when zero.
	// Each command renews it.
	IdleTimeout time.Duration
	// SessionIdleTimeout ends a session through which nothing has passed for so long, if Redis says
	// that it waits for nothing; never when zero.
	SessionIdleTimeout time.Duration

	Resources []fence.Resource // the only resources that may be claimed; any when empty
	trusted   trusted          // by Settings

	TLS guard.TLS // of clients; the Store's URL says how the server is reached

	// Sessions reports whether the session of a client that does not read still exists; the Store
	// when nil.
	Sessions guard.SessionProber
	// Watch begins to watch the server that sessions are on; that of the Store when nil.
	Watch func(context.Context) (Watch, error)
	// Stall is how long such a client may read nothing before that is checked; when zero, the
	// default of relay.Liveness.
	Stall time.Duration
}

// Protocol serves Redis clients. It implements guard.Protocol.
type Protocol struct {
	o          Options
	background *backgroundRaises
	primaries  *primaries
}

var _ guard.Protocol = (*Protocol)(nil)

// New makes a Protocol.
func New(o Options) *Protocol {
	o.LoginTimeout = cmp.Or(o.LoginTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 5*time.Minute)
	if o.Sessions == nil {
		o.Sessions = o.Store
	}
	if o.Watch == nil {
		o.Watch = func(ctx context.Context) (Watch, error) { return o.Store.Watch(ctx) }
	}
	return &Protocol{
		o: o, background: newBackgroundRaises(o.Admission), primaries: newPrimaries(o.Watch),
	}
}

// Name is the name in the Options.
func (p *Protocol) Name() string { return cmp.Or(p.o.Name, "redis") }

// Ready reports whether the store can be used.
func (p *Protocol) Ready(ctx context.Context) error {
	err := p.o.Store.Probe(ctx)
	if err == nil {
		err = p.primaries.prepare(ctx)
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("redis answers nobody: %s: %w", refusal.Silence, err)
	}
	return err
}

// Close ends the control connections, and the background raises on them.
func (p *Protocol) Close() {
	p.primaries.close()
	p.background.close(p.o.Store.Close)
}

// Refuse sends an error before the client has sent a command. The driver reads it as the answer to
// its first command.
func (p *Protocol) Refuse(c *guard.Client, why string) {
	_ = c.LastWord(errorLine("guard: " + why))
}

// Serve implements guard.Protocol.
func (p *Protocol) Serve(ctx context.Context, client *guard.Client) error {
	c := &conn{p: p, client: client, commands: &commandReader{conn: client}}
	cut := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = client.SetWriteDeadline(relay.Past)
		c.setDeadline(relay.Past, true) // last, because a read that it ends may send a final reply
	})()
	defer c.close(ctx)
	var s *session
	err := guard.OnOwnStack(func() error {
		err := c.handshake(ctx)
		if err == nil {
			s = c.start(ctx)
		}
		return err
	})
	if s != nil {
		err = s.wait(ctx)
	}
	switch {
	case evicted(ctx):
		<-cut // the function above must not change the deadlines of the last reply
		c.dismiss()
		return guard.Evicted
	case s != nil && errors.Is(context.Cause(ctx), guard.ErrDrainTimeout):
		<-cut // as above
		s.cutOff()
		return guard.ErrDrainTimeout
	case errors.Is(err, errDone) || ctx.Err() == nil && disconnected(err):
		return nil
	}
	return err
}

// session is an admitted session that is being relayed.
type session struct {
	*conn
	relay        *relay.Relay
	up           *up
	down         *down
	stopWatching func()
	stopIdle     func()
}

// start starts to relay the session.
func (c *conn) start(ctx context.Context) *session {
	s := c.prepare(&up{
		admitted: c.claims, only: c.only, trusted: c.p.o.trusted, primary: c.primary,
		shutdown: c.client.Draining.Done(),
	})
	s.begin(ctx, guard.LivenessOf(c.p.o.Sessions, c.session, c.p.o.Stall))
	return s
}

// prepare makes a session that is ready to be relayed.
func (c *conn) prepare(u *up) *session {
	_ = c.client.SetDeadline(time.Time{})
	c.upstream.Conn = c.client.Adopt(c.upstream.Conn)
	u.injected = newInjectedReplies()
	return &session{conn: c, up: u, down: &down{injected: u.injected}}
}

// begin starts the relay. What the handshake has read and not used goes first.
func (s *session) begin(ctx context.Context, alive relay.Liveness) {
	c := s.conn
	ctx, stop := context.WithCancelCause(ctx)
	s.up.ended = ctx.Done()
	s.stopWatching = c.client.WhenDraining(func() { s.up.drain(c.upstream.Conn) })
	client := relay.Leg{Conn: c.client.Conn(), Early: c.commands.rest()}
	server := relay.Leg{Conn: c.upstream.Conn, Early: c.upstream.rest()}
	s.relay = relay.Start(ctx, client, server, s.up, s.down, alive)
	s.stopIdle = func() { stop(nil) }
	if why := c.primary.add(c.session.ID, stop); why != nil {
		stop(why)
	}
	stopIdle := guard.WhenIdle(c.p.o.SessionIdleTimeout, s.relay,
		func(ctx context.Context, unused func() bool) {
			s.endUnused(ctx, unused, stop)
		})
	s.stopIdle = func() { stopIdle(); stop(nil) }
}

// wait returns when the session has ended. If the client did not leave by itself, it gets the
// reason.
func (s *session) wait(ctx context.Context) error {
	defer s.stopIdle()
	defer s.stopWatching() // when a walker panics
	return s.end(ctx, s.relay.Wait())
}

func (s *session) end(ctx context.Context, end relay.End) error {
	s.stopWatching()
	s.client.Seat.Leave()
	s.midReply = !s.down.atBoundary()
	_, refused := errors.AsType[*fence.Refusal](end.Err)
	switch {
	case errors.Is(end.Err, errDrained):
		err := s.sendAndClose(bytes.NewBufferString(s.down.lastWord))
		if s.up.endsUnused() {
			return guard.Unused
		}
		return err
	case errors.Is(end.Err, relay.ErrStuck):
		return guard.Stuck
	case errors.Is(end.Err, errUnused):
		return guard.Unused
	case errors.Is(end.Err, guard.Demoted):
		if s.down.atBoundary() {
			return cmp.Or(s.explainEnd(ctx), end.Err)
		}
		return end.Err
	case ctx.Err() != nil, !s.down.atBoundary():
		return end.Err
	case errors.Is(end.Err, errProtocol), refused:
		return errors.Join(s.closeWith(end.Err), end.Err)
	case end.Side == relay.ServerSide && !s.up.quit:
		return s.explainEnd(ctx)
	}
	return end.Err
}

// errCutOff is the answer to a command that the shutdown of the guard did not wait for.
var errCutOff = errors.New("shut down; a command without an answer was executed or not, look " +
	"before you repeat it; nothing of an open transaction was executed; connect again")

// cutOff ends a session that was still busy when the guard had to stop. The server stops working
// for it first.
func (s *session) cutOff() {
	_ = s.upstream.Close()
	if !s.finalReplySent && s.down.atBoundary() && !s.down.torn {
		_ = s.closeWith(errCutOff)
	}
}

// explainEnd sends the reason to a client whose session was ended, if a newer leader is the reason.
// Otherwise the guard closes the connection without a reply, as Redis does: an error would look
// like the answer to a command that may have run.
func (c *conn) explainEnd(ctx context.Context) error {
	if why := c.p.o.Admission.Ended(ctx, c.claims); why != nil {
		return c.closeWith(why)
	}
	return nil
}

// close closes the upstream connection, waits until the server has closed it too, and releases the
// session.
func (c *conn) close(ctx context.Context) {
	if c.upstream == nil {
		return
	}
	c.upstream.unhook()
	if c.primary != nil {
		defer c.primary.remove(c.session.ID)
	}
	guard.CloseGently(c.upstream.Conn)
	if len(c.recorded) > 0 {
		c.p.o.Admission.Release(ctx, c.session, c.recorded)
	}
}

// disconnected reports whether one side just closed or reset its connection.
func disconnected(err error) bool {
	return err == nil || errors.Is(err, errServerClosed) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
