package redisguard

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

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// conn is a client's connection, and everything that the guard knows of it.
type conn struct {
	p        *Protocol
	client   *guard.Client
	commands *commandReader
	upstream *upstream // nil until the client has sent its first command
	slot     bool      // it has a login slot
	gotReply bool      // the server has answered without an error: LoginTimeout no longer applies
	said
	only guard.OneUser // whom its certificate lets it be

	mu            sync.Mutex // guards deadlineFixed and the client's deadlines
	deadlineFixed bool       // the last read deadline is set

	finalReplySent bool // at least in part
	midReply       bool // the client has got a part of a reply of the server

	session  marks.SessionID   // once identified
	primary  *primary          // where the session is
	recorded []marks.Presented // the claims under which the session may be recorded
	claims   []marks.Presented // once admitted
}

// errDone ends a connection whose client has got its final reply.
var errDone = errors.New("done")

// handshake serves one command at a time until the session is admitted. It returns errDone if the
// client was refused or has quit. Until the client claims, its seat counts as waiting for it,
// except while the server works on a command.
func (c *conn) handshake(ctx context.Context) error {
	c.setDeadline(time.Now().Add(c.p.o.LoginTimeout), false)
	defer c.client.WhenDraining(func() { c.setDeadline(relay.Past, true) })()
	c.client.Seat.Waiting()
	if err := c.greet(ctx); err != nil {
		return err
	}
	for len(c.claims) == 0 {
		c.client.Seat.Resume()
		if c.gotReply {
			c.setDeadline(time.Now().Add(c.p.o.IdleTimeout), false)
		}
		raw, args, err := c.commands.next()
		switch {
		case err != nil:
			return c.readFailed(ctx, err)
		case len(args) == 0:
			continue // as Redis does with an empty line
		}
		if err := c.checkTLS(); err != nil {
			return c.refuseRepeatedly(err)
		}
		if err := c.serve(ctx, raw, args); err != nil {
			return err
		}
	}
	return nil
}

// setDeadline sets when to stop waiting for the client. After the last one it cannot be moved.
func (c *conn) setDeadline(at time.Time, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.deadlineFixed {
		c.deadlineFixed = last
		_ = c.client.SetReadDeadline(at)
	}
	if last { // what is being written may still go out
		_ = c.client.SetWriteDeadline(time.Now().Add(guard.LastWordTime))
	}
}

// send writes to a client that is not admitted. A write that takes too long fails with guard.Stuck.
func (c *conn) send(b []byte) (int, error) {
	c.mu.Lock()
	limit := c.p.o.LoginTimeout
	if c.deadlineFixed {
		limit = guard.LastWordTime
	}
	_ = c.client.SetWriteDeadline(time.Now().Add(limit))
	c.mu.Unlock()
	n, err := c.client.Write(b)
	c.midReply = c.midReply || err != nil && n > 0
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = guard.Stuck
	}
	return n, err
}

// replyWriter passes the server's replies to the client. While a write blocks, the guard counts as
// waiting for the client.
type replyWriter struct{ *conn }

func (w replyWriter) Write(b []byte) (int, error) {
	w.client.Seat.Resume()
	defer w.client.Seat.Working()
	n, err := w.send(b)
	if err == nil {
		w.midReply = !w.upstream.frames.betweenReplies()
	}
	return n, err
}

// readFailed sends the client the reason why the guard reads no more from it.
func (c *conn) readFailed(ctx context.Context, err error) error {
	switch timeout, ok := errors.AsType[net.Error](err); {
	case errors.Is(err, errProtocol):
		return c.closeWith(err)
	case !ok || !timeout.Timeout() || ctx.Err() != nil:
		return err
	case c.client.Draining.Err() != nil:
		return c.closeWith(errDraining)
	case c.gotReply:
		_ = c.closeWith(fmt.Errorf("no command for %s, and this session has no token",
			c.p.o.IdleTimeout))
		return guard.Idle
	}
	_ = c.closeWith(errors.New("nothing but errors until the login timeout"))
	return guard.TooSlow
}

var errDraining = errors.New("shutting down; this command was not executed, connect again")

// serve handles one command of the handshake.
func (c *conn) serve(ctx context.Context, raw []byte, args [][]byte) error {
	rule, refused := c.p.o.trusted.judge(args, true)
	if r := c.checkCertificate(args); r != nil {
		refused = r
	}
	if refused != nil {
		return c.refuseOne(refused)
	}
	claims, isFence, err := parseClaims(args)
	if err != nil {
		c.p.o.Admission.Report(marks.WithClient(ctx, c.who(args)), err, guard.Peer(c.client))
		return c.refuser(isFence)(err)
	}
	if claims != nil {
		return c.claim(ctx, claimCommand{raw, args, isFence, claims})
	}
	if r := needsToken(rule, args); r != nil {
		return c.refuseOne(r)
	}
	c.client.Seat.Working()
	dial, cancel := context.WithTimeout(ctx, c.p.o.LoginTimeout)
	defer cancel()
	err = c.connect(ctx, dial)
	if errors.Is(err, errFull) {
		return c.noRoom()
	}
	if err != nil {
		return c.refused(ctx, true, err)
	}
	kind, err := c.forward(ctx, raw)
	if err != nil {
		return err
	}
	if kind != '-' {
		c.gotReply = true
		c.remember(args)
	}
	if rule.effect == endsSession {
		return errDone
	}
	return nil
}

// refuseOne answers a command that is refused. The session goes on.
func (c *conn) refuseOne(r *fence.Refusal) error {
	_, err := c.send(line(r))
	return err
}

// forward sends a command that claims nothing and passes on the server's reply. At least a part of
// the reply must arrive within the login timeout.
func (c *conn) forward(ctx context.Context, raw []byte) (kind byte, err error) {
	defer c.upstream.answersBy(ctx, time.Now().Add(c.p.o.LoginTimeout))()
	if err := c.upstream.send(raw); err != nil {
		return 0, err
	}
	kind, err = c.upstream.copyReply(replyWriter{c}, replyWriter{c})
	if c.isFull(ctx, err) {
		return 0, c.noRoom()
	}
	noReply := errors.Is(err, os.ErrDeadlineExceeded) && c.upstream.frames.betweenReplies()
	if noReply && ctx.Err() == nil {
		_ = c.closeWith(fmt.Errorf("redis has not answered for %s: %s",
			c.p.o.LoginTimeout, refusal.Silence))
		return 0, guard.TooSlow
	}
	return kind, err
}

// connect dials the client's upstream connection, which lasts as long as ctx.
func (c *conn) connect(ctx, dial context.Context) error {
	if c.upstream != nil {
		return nil
	}
	if err := c.loginSlot(dial); err != nil {
		return err
	}
	defer marks.StepConnect.Begin(dial)()
	server, err := c.dial(dial)
	if err != nil {
		return err
	}
	unhook := context.AfterFunc(ctx, func() { _ = server.SetDeadline(relay.Past) })
	c.upstream = &upstream{Conn: server, unhook: unhook}
	return nil
}

// refuser returns how to refuse a claim made by FENCE, or by a client name.
func (c *conn) refuser(isFence bool) func(error) error {
	if isFence {
		return c.refuse
	}
	return c.refuseRepeatedly
}

// refused refuses a command that was not forwarded, unless the client was evicted meanwhile.
func (c *conn) refused(ctx context.Context, isFence bool, err error) error {
	switch {
	case evicted(ctx):
		return guard.Evicted
	case ctx.Err() != nil:
		err = errDraining
	}
	return c.refuser(isFence)(err)
}

// refuse answers a claim, and every complete command that is already behind it, with the same
// error. A driver that pipelines its login must not take the refusal of one command for that of
// another.
func (c *conn) refuse(err error) error { return c.sendAndClose(c.forEachPending(lineOf(err))) }

// forEachPending repeats an answer: for the command under way and for every complete one behind it.
func (c *conn) forEachPending(answer []byte) *bytes.Buffer {
	all := bytes.NewBuffer(bytes.Clone(answer))
	for {
		raw, args, err := c.commands.ready()
		if raw == nil || err != nil {
			return all
		}
		if len(args) > 0 {
			all.Write(answer)
		}
	}
}

// silentTime is how long a refused client that may not have read the error may stay silent.
const silentTime = 5 * time.Second

// refuseRepeatedly is refuse for a driver that may ignore the reply to HELLO or CLIENT SETNAME. It
// answers everything that the client sends next with the same error, until the client leaves or is
// silent for a while, or the guard drains.
func (c *conn) refuseRepeatedly(err error) error {
	c.client.Seat.Resume()
	answer := lineOf(err)
	for range 100 {
		_ = c.client.SetWriteDeadline(time.Now().Add(silentTime))
		c.setDeadline(time.Now().Add(silentTime), false)
		n, err := c.client.Write(answer)
		c.finalReplySent = c.finalReplySent || n > 0
		if err != nil {
			return err
		}
		if _, _, err := c.commands.next(); err != nil {
			break
		}
	}
	guard.CloseGently(c.client)
	return errDone
}

// closeWith sends the client a final error and closes the connection.
func (c *conn) closeWith(err error) error { return c.sendAndClose(bytes.NewBuffer(lineOf(err))) }

// sendAndClose sends the final reply and closes the connection.
func (c *conn) sendAndClose(what io.WriterTo) error {
	c.client.Seat.Resume()
	_ = c.client.SetWriteDeadline(time.Now().Add(guard.LastWordTime))
	relay.Cork(c.client.Conn()) // see guard.Client.LastWord
	n, err := what.WriteTo(c.client)
	c.finalReplySent = c.finalReplySent || n > 0
	if err != nil {
		return err
	}
	guard.CloseGently(c.client)
	return errDone
}
