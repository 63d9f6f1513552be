package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"
)

// Server accepts connections and hands each to its Protocol. It knows no protocol itself.
type Server struct {
	Protocol Protocol
	Listener net.Listener
	Log      *slog.Logger
	Metrics  *Metrics

	MaxConnections int           // clients at once, logins included; 10,000 when zero
	DrainTimeout   time.Duration // how long open transactions may go on after a shutdown begins; 30 s when zero
}

// errDrainTimeout ends what is left when the drain is over.
var errDrainTimeout = errors.New("the guard has shut down")

// Serve accepts until ctx ends; then it stops accepting, lets open transactions end for at most DrainTimeout, tells the
// rest, and returns when every connection is closed. The error is the listener's; a shutdown is none.
func (s *Server) Serve(ctx context.Context) error {
	draining := make(chan struct{})
	serving, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	unhook := context.AfterFunc(ctx, func() { _ = s.Listener.Close() })
	defer unhook()

	var open sync.WaitGroup
	err := s.accept(serving, &open, draining)
	close(draining)
	if ctx.Err() != nil {
		err = nil
	}
	drained := make(chan struct{})
	go func() { // ends when the last connection does, which cut makes sure of
		open.Wait()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(s.drainTimeout()):
		s.Log.Warn("drain deadline passed, closing what is left", "protocol", s.Protocol.Name())
		cut(errDrainTimeout)
		<-drained
	}
	return err
}

// accept runs until the listener is closed. Running out of file descriptors is no reason to stop.
func (s *Server) accept(ctx context.Context, open *sync.WaitGroup, draining <-chan struct{}) error {
	slots := make(chan struct{}, s.maxConnections())
	for {
		client, err := s.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			s.Log.Error("accept", "protocol", s.Protocol.Name(), "err", err)
			select {
			case <-time.After(50 * time.Millisecond):
			case <-draining:
			}
			continue
		}
		s.Metrics.accepted(s.Protocol)
		select {
		case slots <- struct{}{}:
			open.Go(func() {
				defer func() { <-slots }()
				s.handle(ctx, client, draining)
			})
		default:
			open.Go(func() { s.turnAway(client) })
		}
	}
}

// handle serves one client. A panic in a protocol ends that one connection, whose session then ends with it.
func (s *Server) handle(ctx context.Context, client net.Conn, draining <-chan struct{}) {
	defer client.Close()
	defer s.contain(client)
	s.Metrics.opened(s.Protocol)
	defer s.Metrics.closed(s.Protocol)
	if err := s.Protocol.Serve(ctx, client, draining); err != nil && refusal(err).Reason == 0 {
		s.Log.Warn("connection ended", "protocol", s.Protocol.Name(), "client", client.RemoteAddr().String(), "err", err)
	}
}

// contain is deferred around everything that a protocol does.
func (s *Server) contain(client net.Conn) {
	if r := recover(); r != nil {
		s.Log.Error("internal error, the connection is closed", "protocol", s.Protocol.Name(),
			"client", client.RemoteAddr().String(), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	}
}

func (s *Server) turnAway(client net.Conn) {
	defer client.Close()
	defer s.contain(client)
	s.Metrics.turnedAway(s.Protocol)
	s.Protocol.Refuse(client, fmt.Sprintf("the guard has its %d connections already", s.maxConnections()))
}

func (s *Server) maxConnections() int {
	if s.MaxConnections == 0 {
		return 10_000
	}
	return s.MaxConnections
}

func (s *Server) drainTimeout() time.Duration {
	if s.DrainTimeout == 0 {
		return 30 * time.Second
	}
	return s.DrainTimeout
}
