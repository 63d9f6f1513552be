package carrier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/internal/network/keepalive"
	"github.com/ringfence/ringfence/internal/network/peeruser"
	"github.com/ringfence/ringfence/internal/network/tally"
	"github.com/ringfence/ringfence/internal/network/unixsocket"
)

const (
	maxConnections = 1000             // of one route
	loginTime      = 30 * time.Second // from the first byte until the relay begins
)

var (
	errClosed  = errors.New("the term is over")
	errTooMany = errors.New("there are too many")
	// ErrListen: the address of LEADER_CARRY cannot be listened on, and waiting changes nothing.
	ErrListen = errors.New("LEADER_CARRY: cannot listen there")
	// ErrNoGuard: what the program writes to this store would not be fenced.
	ErrNoGuard = errors.New("there is no guard: LEADER_CARRY needs one, which is what refuses an " +
		"old token")
)

// Carrier passes connections on under one claim.
type Carrier struct {
	listeners []net.Listener
	environ   [][2]string
	end       context.CancelCauseFunc
	work      sync.WaitGroup
}

// kind is what the carrier knows of one protocol.
type kind struct {
	schemes []string
	open    func(Route, fence.Claim) (protocol, error)
}

var kinds map[string]*kind

func init() { // they check addresses, which name kinds
	kinds = map[string]*kind{
		"postgres": {[]string{"postgres", "postgresql"}, openPostgres},
		"redis":    {[]string{"redis", "rediss"}, openRedis},
	}
}

// protocol presents a claim to one guard.
type protocol interface {
	// guarded reports whether a guard is there, which admits the claim.
	guarded(context.Context) (bool, error)
	// connect reads what a client sends first, and connects it to the guard under the claim. An error
	// was told to the client. There is nothing to relay if server.Conn is nil.
	connect(ctx context.Context, client net.Conn) (fromClient, server relay.Leg, err error)
	// environ returns what a program needs to find the listener.
	environ(context.Context, net.Listener) ([][2]string, error)
	// needsLogin reports whether whoever connects can do what the URL's user can.
	needsLogin() bool
}

// Open listens on each route, for the processes that admit returns no error for. The error is
// ErrNoGuard if a store is reached without a guard.
func Open(
	ctx context.Context, routes []Route, claim fence.Claim, admit func(peeruser.Peer) error,
	log *slog.Logger,
) (_ *Carrier, err error) {
	serving, end := context.WithCancelCause(context.WithoutCancel(ctx))
	c := &Carrier{end: end}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	for _, r := range routes {
		if err := c.route(ctx, serving, r, claim, admit, log.With("carries", r.Kind)); err != nil {
			return nil, fmt.Errorf("carry %s to %s: %w", r.Kind, r.Guard, scrubbed{r, err})
		}
	}
	return c, nil
}

// scrubbed is an error without the secrets of a URL.
type scrubbed struct {
	route Route
	error
}

func (s scrubbed) Error() string { return s.route.Guard.Scrub(s.error.Error()) }
func (s scrubbed) Unwrap() error { return s.error }

func (c *Carrier) route(
	ctx, serving context.Context, r Route, claim fence.Claim, admit func(peeruser.Peer) error,
	log *slog.Logger,
) error {
	p, err := kinds[r.Kind].open(r, claim)
	if err != nil {
		return err
	}
	if there, err := p.guarded(ctx); err != nil {
		return err
	} else if !there {
		return ErrNoGuard
	}
	l, err := listen(ctx, r.Address, p.needsLogin(), peeruser.Listener{
		Admit: admit, Untold: true, Log: tally.NewLog(log),
	})
	if err != nil && ctx.Err() == nil && !passes(err) {
		err = fmt.Errorf("%w: %w", ErrListen, err)
	}
	if err != nil {
		return err
	}
	c.listeners = append(c.listeners, l)
	environ, err := p.environ(ctx, l)
	if err != nil {
		return err
	}
	c.environ = append(c.environ, environ...)
	c.work.Go(func() { c.accept(serving, l, p, log) })
	log.Debug("carries the token", "address", l.Addr().String())
	return nil
}

// passes reports whether a later try may succeed: the carrier of the term before still listens, or
// no open file is left.
func passes(err error) bool {
	n, ok := errors.AsType[syscall.Errno](err)
	return ok && (n == syscall.EADDRINUSE || n.Temporary())
}

// listen listens for what all accepts.
func listen(
	ctx context.Context, a Address, login bool, all peeruser.Listener,
) (_ net.Listener, err error) {
	address, remove := a.Listen, func() {}
	if !a.Fixed() {
		if address, remove, err = ownAddress(a.Kind); err != nil {
			return nil, err
		}
	}
	path, isPath := strings.CutPrefix(address, unixPrefix)
	switch {
	case isPath:
		all.Listener, err = unixsocket.Listen(ctx, path, 0o600)
	case login && !peeruser.TellsTCP:
		err = fmt.Errorf("%w, and the URL has a password: use unix:PATH", peeruser.ErrUntold)
	default:
		all.Listener, err = keepalive.Timeouts{}.ListenConfig().Listen(ctx, "tcp", address)
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) && !a.Fixed() {
		err = fmt.Errorf("%w; this machine may have only a part of 127.0.0.0/8: name an address", err)
	}
	if err != nil {
		remove()
		return nil, err
	}
	return own{all, remove}, nil
}

// own is a listener with something to remove behind it.
type own struct {
	net.Listener
	remove func()
}

// Close implements net.Listener.
func (l own) Close() error {
	defer l.remove()
	return l.Listener.Close()
}

// Environ returns the variables by which a program finds the carrier: PGHOST, PGHOSTADDR, PGPORT,
// PGSSLMODE and DATABASE_URL; REDIS_URL.
func (c *Carrier) Environ() [][2]string { return c.environ }

// Close ends all connections, and returns when nothing more is passed on.
func (c *Carrier) Close() {
	c.end(errClosed)
	for _, l := range c.listeners {
		_ = l.Close()
	}
	c.work.Wait()
}

func (c *Carrier) accept(ctx context.Context, l net.Listener, p protocol, log *slog.Logger) {
	places := make(chan struct{}, maxConnections)
	failed := tally.NewLog(log)
	defer failed.Close()
	for {
		client, err := l.Accept()
		if err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
			// no open file is left, for instance
			failed.Warn("cannot accept a connection", err)
			backoff.Pause(ctx, time.Second)
			continue
		}
		if err != nil {
			return
		}
		select {
		case places <- struct{}{}:
		default:
			failed.Warn("closed a connection", errTooMany, "connections", maxConnections)
			_ = client.Close()
			continue
		}
		c.work.Go(func() {
			defer func() { <-places }()
			defer client.Close()
			if err := pass(ctx, client, p); err != nil && ctx.Err() == nil {
				failed.Warn("a connection of the program was not passed on", err)
			}
		})
	}
}

// pass passes one connection on, until it or the term ends.
func pass(ctx context.Context, client net.Conn, p protocol) error {
	login, cancel := context.WithTimeout(ctx, loginTime)
	defer cancel()
	unhook := relay.WhenOver(login, func() { _ = client.SetDeadline(relay.Past) })
	fromClient, server, err := p.connect(login, client)
	if !unhook() {
		err = errors.Join(err, context.Cause(login))
	}
	if server.Conn != nil {
		defer server.Close()
	}
	if err != nil || server.Conn == nil {
		return err
	}
	relay.Start(ctx, fromClient, server, onward{}, onward{}, relay.Liveness{}).Wait()
	defer context.AfterFunc(ctx, func() { _ = client.Close() })() // Close does not wait for the client
	hangUp(client)
	return nil
}

// lastWord tells a client why it is not connected.
func lastWord(client net.Conn, text []byte) error {
	_ = client.SetDeadline(time.Now().Add(time.Second))
	_, err := client.Write(text)
	hangUp(client)
	return err
}

// hangUp reads what a client still sends, for at most a second. Otherwise the system would drop
// what the client has not received yet when the connection is closed.
func hangUp(client net.Conn) {
	_ = client.SetDeadline(time.Now().Add(time.Second))
	relay.CloseWrite(client)
	_, _ = io.Copy(io.Discard, client)
}

// onward passes all bytes on.
type onward struct{}

// Walk implements relay.Walker.
func (onward) Walk(b []byte, w io.Writer) (int, error) { return w.Write(b) }
