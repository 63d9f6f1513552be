package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/network/tally"
)

// Server accepts connections and hands each to its Protocol. It knows no protocol itself.
type Server struct {
	Protocol Protocol
	Listener net.Listener
	Log      *slog.Logger
	Metrics  *Metrics
	Loops    *relay.Loops // where sessions are relayed; nil to give each goroutines of its own
	Audit    *Audit       // closed at the end of Serve; may be nil

	Limits                     // SetLimits changes them
	Grace        time.Duration // how long a client may keep others waiting; 1 s when zero
	DrainTimeout time.Duration // how long a shutdown waits for open transactions; 30 s when zero

	// Proxies are the networks whose load balancers name the client at the beginning of each
	// connection (PROXY protocol, version 2).
	Proxies []netip.Prefix

	limiting sync.Mutex // guards Limits, room, and limiter until Serve has set it
	room     int        // how many connections of clients the server takes; 0 when that is not known
	limiter  *limiter
	ended    tally.Tally[Ended, endedConn]
	failed   *tally.Log    // what clients cause; set by Serve
	polite   chan struct{} // bounds the clients that are told why they are turned away
}

// ErrDrainTimeout is the cause with which the context of Serve ends for connections that are left
// after DrainTimeout.
var ErrDrainTimeout = errors.New("the guard has shut down")

// errShutdown ends the wait of connections that have no slot yet.
var errShutdown = errors.New("the guard is shutting down")

// maxPolite is how many clients at once are told why they are turned away. The rest of a flood is
// closed without a message.
const maxPolite = 100

// Serve accepts connections until ctx ends. Then it lets open transactions end for at most
// DrainTimeout, tells the other clients, and returns when every connection is closed. It returns an
// error of the listener, and nil after a shutdown.
func (s *Server) Serve(ctx context.Context) error {
	draining, drain := context.WithCancel(context.WithoutCancel(ctx))
	defer drain()
	serving, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	unhook := context.AfterFunc(ctx, func() { _ = s.Listener.Close() })
	defer unhook()
	s.ended.Report = s.logEnded
	defer s.ended.Close()
	s.failed = tally.NewLog(s.Log)
	defer s.failed.Close()
	if s.Audit != nil {
		defer s.Audit.Close()
	}
	s.polite = make(chan struct{}, maxPolite)
	s.limit()
	defer s.limiter.close()
	asking, done := context.WithCancel(serving)
	var bounding sync.WaitGroup
	bounding.Go(func() { s.bound(asking) })
	defer bounding.Wait()
	defer done()

	var open sync.WaitGroup
	err := s.accept(serving, &open, draining)
	drain()
	if ctx.Err() != nil {
		err = nil
	}
	drained := make(chan struct{})
	go func() { // ends with the last connection; cut makes sure of that
		open.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(cmp.Or(s.DrainTimeout, 30*time.Second)):
		s.Log.Warn("drain deadline passed, closing what is left", "protocol", s.Protocol.Name())
		cut(ErrDrainTimeout)
		<-drained
	}
	return err
}

// accept runs until the listener is closed. It does not stop when file descriptors run out.
func (s *Server) accept(ctx context.Context, open *sync.WaitGroup, draining context.Context) error {
	for {
		client, err := s.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			s.failed.Warn("cannot accept a connection", err, "protocol", s.Protocol.Name())
			select {
			case <-time.After(50 * time.Millisecond):
			case <-draining.Done():
			}
			continue
		}
		s.Metrics.accepted(s.Protocol)
		if s.fromProxy(client) {
			open.Go(func() { s.acceptFromProxy(ctx, client, open, draining) })
			continue
		}
		s.arrive(ctx, client, client.RemoteAddr(), open, draining)
	}
}

// acceptFromProxy reads who the client is before it enters the queue.
func (s *Server) acceptFromProxy(
	ctx context.Context, client net.Conn, open *sync.WaitGroup, draining context.Context,
) {
	unhook := relay.WhenOver(draining, func() { _ = client.SetReadDeadline(relay.Past) })
	at, err := announced(client)
	if !unhook() && err == nil {
		err = errShutdown
	}
	if err != nil {
		s.failed.Warn("connection ended", err, "protocol", s.Protocol.Name(), "client", Peer(client))
		_ = client.Close()
		return
	}
	s.arrive(ctx, client, at, open, draining)
}

// arrive puts a connection into the queue and serves it. at is the address of the client.
func (s *Server) arrive(
	ctx context.Context, conn net.Conn, at net.Addr, open *sync.WaitGroup, draining context.Context,
) {
	own, cut := context.WithCancelCause(ctx)
	// Here rather than in the goroutine, so that the queue is in order of arrival.
	seat, turn := s.limiter.arrive(address(at), cut)
	open.Go(func() {
		defer cut(nil)
		s.handle(own, newClient(conn, at, seat, draining, s.Loops), turn)
	})
}

// handle serves one client. A panic in a protocol ends only that connection and its session.
func (s *Server) handle(ctx context.Context, client *Client, turn *turn) {
	defer client.Seat.Leave()
	defer client.Close()
	defer s.contain(client)
	if err := client.Seat.enter(ctx, turn, client.Draining.Done()); err != nil {
		s.turnAway(client, err)
		return
	}
	err := s.Protocol.Serve(ctx, client)
	var ended Ended
	switch {
	case errors.As(err, &ended):
		s.count(ended, client)
	case err != nil && refusalIn(err).Reason == "":
		s.failed.Warn("connection ended", err, "protocol", s.Protocol.Name(), "client", Peer(client))
	}
}

// count counts a connection that the guard has ended.
func (s *Server) count(e Ended, client net.Conn) {
	s.Metrics.end(s.Protocol, e)
	s.ended.Add(e, endedConn{e, Peer(client)})
}

// contain recovers from a panic in a protocol.
func (s *Server) contain(client net.Conn) {
	if r := recover(); r != nil {
		s.Log.Error("internal error, the connection is closed", "protocol", s.Protocol.Name(),
			"client", Peer(client), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	}
}

// turnAway ends a connection that got no slot.
func (s *Server) turnAway(client *Client, why error) {
	text := "the guard is shutting down"
	if errors.Is(why, Crowded) {
		s.count(Crowded, client)
		text = "the guard has " + s.limiter.room()
	}
	select {
	case s.polite <- struct{}{}:
		defer func() { <-s.polite }()
		s.Protocol.Refuse(client, text)
	default:
	}
}
