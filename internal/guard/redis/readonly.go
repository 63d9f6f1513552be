package redis

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	redisstore "github.com/ringfence/ringfence/internal/marks/redis"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/refusal"
)

// knownReads is which commands of the server only read, as the server itself says. It is asked at most
// once a minute: a module may be loaded, or another server come up at the address.
type knownReads struct {
	ask func(context.Context) (map[string]bool, error)

	mu  sync.Mutex
	at  time.Time
	all map[string]bool
}

const (
	knownFor = time.Minute
	askTime  = 5 * time.Second
)

// has reports whether the server flags a command, or its subcommand, as one that only reads.
func (k *knownReads) has(ctx context.Context, args [][]byte) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.at) > knownFor {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		all, err := k.ask(ctx)
		if err != nil {
			return false, fmt.Errorf("the server was asked which commands only read: %w", err)
		}
		k.all, k.at = all, time.Now()
	}
	return k.lists(args), nil
}

// had is has without a question to the server: it knows what the server said last.
func (k *knownReads) had(args [][]byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lists(args)
}

func (k *knownReads) lists(args [][]byte) bool {
	name := string(upper(nil, args[0]))
	return len(args) > 1 && k.all[name+"|"+string(upper(nil, args[1]))] || k.all[name]
}

// harmless are the commands that a session without a token may send whatever the server's flags are:
// they log in, ask for the connection or the server, or open and end a transaction. What is in a
// transaction is decided command by command.
var harmless = list(`HELLO AUTH PING SELECT COMMAND ECHO TIME INFO ROLE LASTSAVE QUIT CLIENT SCRIPT FUNCTION
	MULTI EXEC DISCARD WATCH UNWATCH`)

// subscribes are the commands with a reply for each argument, after which the server sends messages of
// its own accord.
var subscribes = list("SUBSCRIBE PSUBSCRIBE SSUBSCRIBE UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE")

// mayRead refuses a command of a session without a token that could write. It returns nil for the
// others. reads is has or had.
func mayRead(reads func([][]byte) (bool, error), rule *rule, args [][]byte) (*fence.Refusal, error) {
	name := upper(nil, args[0])
	switch {
	case subscribes[string(name)]:
		return nil, nil
	case growsFaster(args):
		return refusal.LongWithoutToken(commandName(args), takesLong), nil
	case harmless[string(name)]:
		if rule != nil && rule.beforeToken != nil {
			return needsToken(rule, args), nil
		}
		return nil, nil
	case !endsByItself(args):
		return refusal.NeedsToken(commandName(args)), nil
	}
	ok, err := reads(args)
	if err == nil && !ok {
		return refusal.NeedsToken(commandName(args)), nil
	}
	return nil, err
}

// withoutToken refuses a command of a session that has no token, if it needs one.
func (c *conn) withoutToken(ctx context.Context, rule *rule, args [][]byte) (*fence.Refusal, error) {
	if !c.p.o.ReadOnly {
		return needsToken(rule, args), nil
	}
	return mayRead(func(args [][]byte) (bool, error) { return c.p.reads.has(ctx, args) }, rule, args)
}

// follow keeps track of a transaction of a session without a token.
func (c *conn) follow(rule *rule, failed bool) {
	switch {
	case rule == nil:
	case rule.effect == opensTransaction && !failed:
		c.multi, c.long = true, 0
	case rule.effect == closesTransaction:
		c.multi = c.multi && failed && rule != rules["EXEC"] // an EXEC that fails has ended it, too
	}
}

// refuseOne answers a command that is refused. In a transaction the server must know of it, so that
// EXEC fails as after any refused command: it gets a command that it does not know.
func (c *conn) refuseOne(ctx context.Context, r *fence.Refusal) error {
	if c.multi {
		defer c.upstream.answersBy(ctx, time.Now().Add(c.p.o.LoginTimeout))()
		if _, err := c.upstream.Conn.Write(redisstore.Command("RINGFENCE-" + rand.Text())); err != nil {
			return err
		}
		if _, err := c.upstream.copyReply(io.Discard, replyWriter{c}); err != nil {
			return err
		}
	}
	_, err := c.send(line(r))
	return err
}

// subscribe relays a session from its first subscription on, because from then on replies and messages
// come in any order. It stays without a token.
func (c *conn) subscribe(ctx context.Context, raw []byte) (*session, error) {
	c.client.Seat.Working()
	if _, err := c.p.reads.has(ctx, [][]byte{[]byte("GET")}); err != nil {
		_, err := c.send(lineOf(err))
		return nil, err
	}
	if err := c.loggedIn(ctx); err != nil {
		if answered, ok := errors.AsType[serverError](err); ok {
			_, err = c.send(answered)
		}
		return nil, err
	}
	// The command itself comes again, from the relay's buffer.
	c.commands.buf = append(bytes.Clone(raw), c.commands.buf...)
	s := c.startReadOnly(ctx)
	c.client.Seat.Waiting()
	return s, nil
}

// loggedIn asks the server whether the session has logged in.
func (c *conn) loggedIn(ctx context.Context) error {
	defer c.upstream.answersBy(ctx, time.Now().Add(c.p.o.LoginTimeout))()
	_, err := c.upstream.do(replyWriter{c}, []string{"PING"})
	if answered, ok := errors.AsType[serverError](err); ok && !bytes.HasPrefix(answered, []byte("-NOAUTH")) {
		return nil // a user without the right to PING
	}
	return err
}

// startReadOnly starts to relay a session that has no token. A walker must not wait for the server, so
// it decides by what the server has said before.
func (c *conn) startReadOnly(ctx context.Context) *session {
	s := c.prepare(&up{
		only: c.only, shutdown: c.client.Draining.Done(), multi: c.multi,
		mayRead: func(rule *rule, args [][]byte) *fence.Refusal {
			had := func(args [][]byte) (bool, error) { return c.p.reads.had(args), nil }
			refused, _ := mayRead(had, rule, args)
			if refused == nil && !isShort(args[0]) {
				// The relay passes on whatever the client sends, without waiting for replies.
				refused = refusal.LongWithoutToken(commandName(args), "this session has subscribed")
			}
			return refused
		},
	})
	s.begin(ctx, relay.Liveness{})
	return s
}

// claimsTooLate refuses a claim of a session that has subscribed.
func claimsTooLate() *fence.Refusal {
	return refusal.BadClaim("a session that has subscribed without a token cannot claim one",
		"the server's messages would come between the commands of the admission; use another connection", nil)
}
