package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// conn is one client's connection.
type conn struct {
	p      *Protocol
	client *guard.Client
	in     *inbox
	leg    *leg   // nil until the client has sent its first command
	known  bool   // the server has answered something but an error: the client need not hurry any more
	name   string // the client's own for its connection

	mu    sync.Mutex // deadline
	final bool

	told bool // the client has its last word, or a part of it
	mid  bool // a part of a reply was written

	session marks.Session     // once identified
	claims  []marks.Presented // once admitted
}

// errDone ends a connection whose client has been told all there is to tell.
var errDone = errors.New("done")

// handshake serves one command at a time until the session is admitted. errDone: the client was refused or has quit.
// Until it claims, the guard waits for the client: only what the server takes for an answer does not count.
func (c *conn) handshake(ctx context.Context) error {
	c.deadline(time.Now().Add(c.p.o.LoginTimeout), false)
	defer c.client.WhenDraining(func() { c.deadline(guard.Past, true) })()
	c.client.Seat.Waiting()
	for len(c.claims) == 0 {
		c.client.Seat.Resume()
		if c.known {
			c.deadline(time.Now().Add(c.p.o.IdleTimeout), false)
		}
		raw, args, err := c.in.next()
		switch {
		case err != nil:
			return c.unread(ctx, err)
		case len(args) == 0:
			continue // as Redis does with an empty line
		}
		if err := c.serve(ctx, raw, args); err != nil {
			return err
		}
	}
	return nil
}

// deadline sets when to stop waiting for the client; a last one is not moved again.
func (c *conn) deadline(at time.Time, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.final {
		c.final = last
		_ = c.client.SetReadDeadline(at)
	}
	if last { // what is being written may still go out
		_ = c.client.SetWriteDeadline(time.Now().Add(guard.LastWordTime))
	}
}

// tell writes to a client that is not admitted.
func (c *conn) tell(b []byte) (int, error) {
	c.mu.Lock()
	limit := c.p.o.LoginTimeout
	if c.final {
		limit = guard.LastWordTime
	}
	_ = c.client.SetWriteDeadline(time.Now().Add(limit))
	c.mu.Unlock()
	n, err := c.client.Write(b)
	c.mid = c.mid || err != nil && n > 0
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = guard.Stuck
	}
	return n, err
}

// answers writes what the server answers. As long as the client does not take it, the client is waited for.
type answers struct{ *conn }

func (a answers) Write(b []byte) (int, error) {
	a.client.Seat.Resume()
	defer a.client.Seat.Working()
	n, err := a.tell(b)
	if err == nil {
		a.mid = !a.leg.frames.top()
	}
	return n, err
}

// unread tells the client why nothing more is read of it.
func (c *conn) unread(ctx context.Context, err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, errProtocol):
		return c.last(err)
	case !errors.As(err, &timeout) || !timeout.Timeout():
		return err
	case ctx.Err() != nil:
		return err
	}
	select {
	case <-c.client.Draining:
		return c.last(errDraining)
	default:
	}
	if c.known {
		_ = c.last(fmt.Errorf("no command for %s, and this session has no token", c.p.o.IdleTimeout))
		return guard.Idle
	}
	_ = c.last(errors.New("nothing but errors until the login timeout"))
	return guard.TooSlow
}

var errDraining = errors.New("shutting down; this command was not executed, connect again")

// serve deals with one command of the handshake.
func (c *conn) serve(ctx context.Context, raw []byte, args [][]byte) error {
	claims, own, err := claimed(args)
	if err != nil {
		return c.refusal(own)(err)
	}
	rule := ruleOf(args[0])
	if !own {
		r := forbidden(rule, args)
		if r == nil {
			r = tooEarly(rule, args)
		}
		if r != nil {
			_, err := c.tell(line(r))
			return err
		}
	}
	if claims != nil {
		return c.claim(ctx, claiming{raw, args, own, claims})
	}
	c.client.Seat.Working()
	dial, cancel := context.WithTimeout(ctx, c.p.o.LoginTimeout)
	defer cancel()
	if err := c.reach(ctx, dial); err != nil {
		return c.refused(ctx, true, err)
	}
	kind, err := c.forward(ctx, raw)
	if err != nil {
		return err
	}
	if kind != '-' {
		c.known = true
		c.named(args)
	}
	if rule.moves == leaves {
		return errDone
	}
	return nil
}

// forward sends a command that claims nothing and passes on the server's reply, of which a part is due in the time for
// a login.
func (c *conn) forward(ctx context.Context, raw []byte) (kind byte, err error) {
	c.leg.answerBy(ctx, time.Now().Add(c.p.o.LoginTimeout))
	defer c.leg.answerBy(ctx, time.Time{})
	if _, err := c.leg.Conn.Write(raw); err != nil {
		return 0, err
	}
	kind, err = c.leg.reply(answers{c}, answers{c})
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil && c.leg.frames.top() {
		_ = c.last(fmt.Errorf("redis has not answered for %s: %s", c.p.o.LoginTimeout, refusal.Silence))
		return 0, guard.TooSlow
	}
	return kind, err
}

// reach dials the client's leg, which lasts as long as ctx.
func (c *conn) reach(ctx, dial context.Context) error {
	if c.leg != nil {
		return nil
	}
	defer marks.StepConnect.Begin(dial)()
	l, err := c.p.o.Store.Dial(dial)
	if err != nil {
		return fmt.Errorf("cannot reach Redis: %w", err)
	}
	c.leg = &leg{Conn: l, unhook: context.AfterFunc(ctx, func() { _ = l.SetDeadline(guard.Past) })}
	return nil
}

// refusal is how a claim is refused that FENCE made, or a client name.
func (c *conn) refusal(own bool) func(error) error {
	if own {
		return c.refuse
	}
	return c.insist
}

// refused refuses a command that has reached nobody, unless the client was evicted meanwhile.
func (c *conn) refused(ctx context.Context, own bool, err error) error {
	switch {
	case evicted(ctx):
		return guard.Evicted
	case ctx.Err() != nil:
		err = errDraining
	}
	return c.refusal(own)(err)
}

// refuse answers a claim, and every complete command that is behind it already, with one and the same error: a driver
// that pipelines its login must not take the refusal of one command for that of another.
func (c *conn) refuse(err error) error { return c.say(c.forEach(lineOf(err))) }

// forEach is an answer to the command under way and to every complete one behind it.
func (c *conn) forEach(answer []byte) *bytes.Buffer {
	all := bytes.NewBuffer(bytes.Clone(answer))
	for {
		raw, args, err := c.in.ready()
		if raw == nil || err != nil {
			return all
		}
		if len(args) > 0 {
			all.Write(answer)
		}
	}
}

// silentTime is how long a client may be silent that was refused and may not have looked.
const silentTime = 5 * time.Second

// insist is refuse for a driver that may not look at the answer, because it was to HELLO or CLIENT SETNAME: whatever it
// sends next, until it leaves, is silent for a while or the guard drains, is answered with the error too.
func (c *conn) insist(err error) error {
	c.client.Seat.Resume()
	answer := lineOf(err)
	for range 100 {
		_ = c.client.SetWriteDeadline(time.Now().Add(silentTime))
		c.deadline(time.Now().Add(silentTime), false)
		n, err := c.client.Write(answer)
		c.told = c.told || n > 0
		if err != nil {
			return err
		}
		if _, _, err := c.in.next(); err != nil {
			break
		}
	}
	guard.CloseGently(c.client)
	return errDone
}

// last is the last thing that the client is told.
func (c *conn) last(err error) error { return c.say(bytes.NewBuffer(lineOf(err))) }

func (c *conn) say(what io.WriterTo) error {
	c.client.Seat.Resume()
	_ = c.client.SetWriteDeadline(time.Now().Add(guard.LastWordTime))
	n, err := what.WriteTo(c.client)
	c.told = c.told || n > 0
	if err != nil {
		return err
	}
	guard.CloseGently(c.client)
	return errDone
}
