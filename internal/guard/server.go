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
	Listener net.Listener // nil if no client comes through this guard
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

	limiting sync.Mutex // guards Limits and capacity
	capacity *capacity  // nil until Serve has begun
	limiter  *limiter   // set by Serve
	ended    tally.Tally[Ended, endedConn]
	failed   *tally.Log    // what clients cause; set by Serve
	polite   chan struct{} // bounds the clients that are told why they are turned away
}

// ErrDrainTimeout is the cause with which the context of Serve ends for connections that are left
// after DrainTimeout.
var ErrDrainTimeout = errors.New("the guard has shut down")

// maxPolite is how many clients at once are told why they are turned away. The rest of a flood is
// closed without a message.
const maxPolite = 100

// Serve accepts connections until ctx ends. Then it lets open transactions end for at most
// DrainTimeout, tells the other clients, and returns when every connection is closed. It returns an
// error of the listener, and nil after a shutdown.
func (s *Server) Serve(ctx context.Context) error {
	if s.Audit != nil {
		defer s.Audit.Close()
	}
	if s.Listener == nil {
		if k, ok := s.Protocol.(Keeper); ok {
			k.Keep(ctx, func(database string, err error) {
				s.Log.Warn("a database cannot be opened, so its marks are not raised",
					"protocol", s.Protocol.Name(), "database", database, "err", err)
			})
		}
		<-ctx.Done()
		return nil
	}
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
	s.polite = make(chan struct{}, maxPolite)
	s.startLimiting()
	defer s.limiter.close()
	asking, done := context.WithCancel(serving)
	var bounding sync.WaitGroup
	bounding.Go(func() { s.capacity.follow(asking) })
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

// SetLimits changes the limits, also while the server serves. Higher ones let in at once who waits.
// Lower ones end nobody: no more are let in until enough have left.
func (s *Server) SetLimits(l Limits) {
	s.limiting.Lock()
	defer s.limiting.Unlock()
	s.Limits = l
	if s.capacity != nil {
		s.capacity.allow(l)
	}
}

// startLimiting makes the limiter, with the limits as they are now.
func (s *Server) startLimiting() {
	s.limiting.Lock()
	defer s.limiting.Unlock()
	s.limiter = newLimiter(s.Limits.defaults(), cmp.Or(s.Grace, time.Second))
	s.limiter.counts = s.Metrics.slots(s.Protocol.Name())
	s.capacity = &capacity{protocol: s.Protocol, limiter: s.limiter, metrics: s.Metrics, log: s.Log}
	s.capacity.allow(s.Limits)
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
		s.Metrics.accepted(s.Protocol.Name())
		if inNetworks(client.RemoteAddr(), s.Proxies) {
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
	s.Metrics.end(s.Protocol.Name(), e)
	s.ended.Add(e, endedConn{e, Peer(client)})
}

// endedConn is a connection that the guard has ended.
type endedConn struct {
	reason Ended
	client string
}

// logEnded logs n connections that were ended for the same reason; e is the last one.
func (s *Server) logEnded(e endedConn, n int) {
	s.Log.Warn("connections ended by the guard", "protocol", s.Protocol.Name(),
		"reason", string(e.reason), "connections", n, "last_client", e.client)
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
