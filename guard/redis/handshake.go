package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/guard"
	"github.com/ringfence/ringfence/store"
)

// conn is one client's connection.
type conn struct {
	p      *Protocol
	client net.Conn
	in     *inbox
	leg    *leg // nil until the client has sent its first command
	known  bool // the server has answered something but an error: the client need not hurry any more

	mu    sync.Mutex // deadline
	final bool

	session store.Session // once identified
	claims  []fence.Claim // once admitted
}

// errDone ends a connection whose client has been told all there is to tell.
var errDone = errors.New("done")

// handshake serves one command at a time until the session is admitted. errDone: the client was refused or has quit.
func (c *conn) handshake(ctx context.Context, draining <-chan struct{}) error {
	_ = c.client.SetReadDeadline(time.Now().Add(c.p.o.LoginTimeout))
	defer whenDraining(draining, func() { c.deadline(past, true) })()
	for len(c.claims) == 0 {
		raw, args, err := c.in.next()
		switch {
		case err != nil:
			return c.unread(err, draining)
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
}

// whenDraining calls f once the guard drains. stop waits until that cannot happen any more.
func whenDraining(draining <-chan struct{}, f func()) (stop func()) {
	done := make(chan struct{})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		select {
		case <-draining:
			f()
		case <-done:
		}
	})
	return func() { close(done); waiting.Wait() }
}

// past is a deadline that ends a call that is under way.
var past = time.Unix(1, 0)

// unread tells the client why nothing more is read of it.
func (c *conn) unread(err error, draining <-chan struct{}) error {
	var timeout net.Error
	switch {
	case errors.Is(err, errProtocol):
		return c.last(err)
	case errors.As(err, &timeout) && timeout.Timeout():
		select {
		case <-draining:
			return c.last(errDraining)
		default:
			return c.last(errors.New("nothing but errors until the login timeout"))
		}
	}
	return err
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
			_, err := c.client.Write(line(r))
			return err
		}
	}
	if err := c.reach(ctx); err != nil {
		return c.refuse(err)
	}
	if claims != nil {
		return c.claim(ctx, raw, own, claims)
	}
	if _, err := c.leg.Conn.Write(raw); err != nil {
		return err
	}
	kind, err := c.leg.reply(c.client, c.client)
	if err != nil {
		return err
	}
	if kind != '-' && !c.known {
		c.known = true
		c.deadline(time.Time{}, false)
	}
	if rule.moves == leaves {
		return errDone
	}
	return nil
}

// reach dials the client's leg.
func (c *conn) reach(ctx context.Context) error {
	if c.leg != nil {
		return nil
	}
	dial, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	l, err := c.p.o.Store.Dial(dial)
	if err != nil {
		return fmt.Errorf("cannot reach Redis: %w", err)
	}
	c.leg = &leg{Conn: l, unhook: context.AfterFunc(ctx, func() { _ = l.SetDeadline(past) })}
	return nil
}

// refusal is how a claim is refused that FENCE made, or a client name.
func (c *conn) refusal(own bool) func(error) error {
	if own {
		return c.refuse
	}
	return c.insist
}

// refuse answers a claim, and every complete command that is behind it already, with one and the same error: a driver
// that pipelines its login must not take the refusal of one command for that of another.
func (c *conn) refuse(err error) error {
	answer := lineOf(err)
	answers := bytes.NewBuffer(answer)
	for {
		raw, args, perr := c.in.ready()
		if raw == nil || perr != nil {
			break
		}
		if len(args) > 0 {
			answers.Write(answer)
		}
	}
	return c.say(answers)
}

// silentTime is how long a client may be silent that was refused and may not have looked.
const silentTime = 5 * time.Second

// insist is refuse for a driver that may not look at the answer, because it was to HELLO or CLIENT SETNAME: whatever it
// sends next, until it leaves, is silent for a while or the guard drains, is answered with the error too.
func (c *conn) insist(err error) error {
	answer := lineOf(err)
	for range 100 {
		_ = c.client.SetWriteDeadline(time.Now().Add(silentTime))
		c.deadline(time.Now().Add(silentTime), false)
		if _, err := c.client.Write(answer); err != nil {
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
	_ = c.client.SetWriteDeadline(time.Now().Add(2 * time.Second))
	if _, err := what.WriteTo(c.client); err != nil {
		return err
	}
	guard.CloseGently(c.client)
	return errDone
}
