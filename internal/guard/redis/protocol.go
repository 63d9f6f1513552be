package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	redisstore "github.com/ringfence/ringfence/internal/marks/redis"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Options of a Protocol. Store and Admission are required.
type Options struct {
	Store     *redisstore.Store
	Admission *marks.Admission

	// LoginTimeout ends a connection to which the server has answered nothing but errors, or nothing; 30 s when zero.
	LoginTimeout time.Duration

	// IdleTimeout ends a connection without a token whose client sends nothing; 5 min when zero. Each command renews it.
	IdleTimeout time.Duration

	Resources []fence.Resource // the only resources that may be claimed; any when empty

	Sessions guard.Sessions  // asked about sessions whose client does not read; the Store when nil
	Stall    time.Duration // how long a client may take nothing before that is asked; 5 s when zero
}

// Protocol serves Redis clients. It implements guard.Protocol.
type Protocol struct {
	o        Options
	pursuits *pursuits
}

var _ guard.Protocol = (*Protocol)(nil)

// New makes a Protocol.
func New(o Options) *Protocol {
	if o.LoginTimeout == 0 {
		o.LoginTimeout = 30 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 5 * time.Minute
	}
	if o.Sessions == nil {
		o.Sessions = o.Store
	}
	return &Protocol{o, newPursuits(o.Admission)}
}

// Name is "redis".
func (p *Protocol) Name() string { return "redis" }

// Ready asks the store whether it can be used.
func (p *Protocol) Ready(ctx context.Context) error {
	err := p.o.Store.Probe(ctx)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("redis answers nobody: %s: %w", refusal.Silence, err)
	}
	return err
}

// Close ends the control connections, and what is pursued on them.
func (p *Protocol) Close() { p.pursuits.end(p.o.Store.Close) }

// Refuse answers before the client has asked: its driver reads it as the answer to its first command.
func (p *Protocol) Refuse(c *guard.Client, why string) {
	_ = c.LastWord(errorLine("guard: " + why))
}

// Serve is guard.Protocol's.
func (p *Protocol) Serve(ctx context.Context, client *guard.Client) error {
	c := &conn{p: p, client: client, in: &inbox{conn: client}}
	cut := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = client.SetWriteDeadline(guard.Past)
		c.deadline(guard.Past, true) // comes last, for whoever reads may then have last words for the client
	})()
	defer c.close(ctx)
	err := c.handshake(ctx)
	if err == nil {
		err = c.relay(ctx)
	}
	switch {
	case evicted(ctx):
		<-cut // it must not touch the deadlines of the last word
		c.dismiss()
		return guard.Evicted
	case errors.Is(err, errDone) || ctx.Err() == nil && left(err):
		return nil
	}
	return err
}

// relay passes bytes until one side leaves, and tells the client why if it was not the client.
func (c *conn) relay(ctx context.Context) error {
	_ = c.client.SetDeadline(time.Time{})
	swaps := newSwaps()
	u, d := &up{admitted: c.claims, swaps: swaps}, &down{swaps: swaps}
	stop := c.client.WhenDraining(func() { u.drain(c.leg.Conn) })
	end := guard.Relay(ctx, c.client, c.in.rest(), c.leg, u, d, guard.LivenessOf(c.p.o.Sessions, c.session, c.p.o.Stall))
	stop()
	c.client.Seat.Leave()
	var refusal *fence.Refusal
	switch {
	case errors.Is(end.Err, errDrained):
		return c.say(nothing{}) // it has been told already
	case ctx.Err() != nil, errors.Is(end.Err, guard.Stuck), !d.between():
		return end.Err
	case errors.Is(end.Err, errProtocol), errors.As(end.Err, &refusal):
		return errors.Join(c.last(end.Err), end.Err)
	case end.Side == guard.ServerSide && !u.quit:
		return c.ended(ctx)
	}
	return end.Err
}

// ended tells a client whose session was ended the reason, when a newer leader is the reason. Otherwise the connection
// is closed without a word, as Redis does: an error would look like the answer to a command that may have run.
func (c *conn) ended(ctx context.Context) error {
	if why := c.p.o.Admission.Ended(ctx, c.claims); why != nil {
		return c.last(why)
	}
	return nil
}

// close ends the leg, waits until the server has done so too, and has the store forget the session.
func (c *conn) close(ctx context.Context) {
	if c.leg == nil {
		return
	}
	c.leg.unhook()
	guard.CloseGently(c.leg)
	if c.session == (marks.Session{}) {
		return
	}
	c.p.o.Admission.Release(ctx, c.session)
}

// left says that one side just went away.
func left(err error) bool {
	return err == nil || errors.Is(err, errLeft) || isClosed(err)
}
