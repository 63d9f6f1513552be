package guard

import (
	"cmp"
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

	MaxConnections int           // admitted sessions at once; 10,000 when zero
	MaxUnadmitted  int           // connections at once that are not admitted; 1,000 when zero. Four times as many may wait for room
	MaxLogins      int           // of these, logins at once that are under way at the server; 40 when zero
	Grace          time.Duration // how long a connection may keep others waiting for its client's next move; 1 s when zero
	DrainTimeout   time.Duration // how long open transactions may go on after a shutdown begins; 30 s when zero

	door   *door
	ended  crowds
	polite chan struct{} // bounds the connections that are turned away with a word
}

// errDrainTimeout ends what is left when the drain is over.
var errDrainTimeout = errors.New("the guard has shut down")

// errShutdown ends the wait of those that have not even entered.
var errShutdown = errors.New("the guard is shutting down")

// politeMost is how many clients are told at once why they are turned away. A flood is closed without a word.
const politeMost = 100

// Serve accepts until ctx ends; then it stops accepting, lets open transactions end for at most DrainTimeout, tells the
// rest, and returns when every connection is closed. The error is the listener's; a shutdown is none.
func (s *Server) Serve(ctx context.Context) error {
	draining := make(chan struct{})
	serving, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	unhook := context.AfterFunc(ctx, func() { _ = s.Listener.Close() })
	defer unhook()
	s.polite = make(chan struct{}, politeMost)
	s.door = newDoor(cmp.Or(s.MaxConnections, 10_000), cmp.Or(s.MaxUnadmitted, 1000), cmp.Or(s.MaxLogins, 40), cmp.Or(s.Grace, time.Second))
	s.door.counts = s.Metrics.slots(s.Protocol)
	defer s.door.close()

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
	case <-time.After(cmp.Or(s.DrainTimeout, 30*time.Second)):
		s.Log.Warn("drain deadline passed, closing what is left", "protocol", s.Protocol.Name())
		cut(errDrainTimeout)
		<-drained
	}
	return err
}

// accept runs until the listener is closed. Running out of file descriptors is no reason to stop.
func (s *Server) accept(ctx context.Context, open *sync.WaitGroup, draining <-chan struct{}) error {
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
		own, cut := context.WithCancelCause(ctx)
		seat, turn := s.door.arrive(address(client), cut) // here, so that the queue is in order of arrival
		open.Go(func() {
			defer cut(nil)
			s.handle(own, &Client{client, seat, draining}, turn)
		})
	}
}

// handle serves one client. A panic in a protocol ends that one connection, whose session then ends with it.
func (s *Server) handle(ctx context.Context, client *Client, turn *turn) {
	defer client.Seat.Leave()
	defer client.Close()
	defer s.contain(client)
	if err := client.Seat.enter(ctx, turn, client.Draining); err != nil {
		s.turnAway(client, err)
		return
	}
	err := s.Protocol.Serve(ctx, client)
	var ended Ended
	switch {
	case errors.As(err, &ended):
		s.count(ended, client)
	case err != nil && refusalIn(err).Reason == 0:
		s.Log.Warn("connection ended", "protocol", s.Protocol.Name(), "client", Peer(client), "err", err)
	}
}

// count is for what comes in crowds.
func (s *Server) count(e Ended, client net.Conn) {
	s.Metrics.end(s.Protocol, e)
	s.ended.log(s.Log, s.Protocol.Name(), e, Peer(client))
}

// contain is deferred around everything that a protocol does.
func (s *Server) contain(client net.Conn) {
	if r := recover(); r != nil {
		s.Log.Error("internal error, the connection is closed", "protocol", s.Protocol.Name(),
			"client", Peer(client), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	}
}

// turnAway ends a connection that did not get in. It holds no slot any more.
func (s *Server) turnAway(client *Client, why error) {
	text := "the guard is shutting down"
	if errors.Is(why, Crowded) {
		s.count(Crowded, client)
		text = fmt.Sprintf("the guard has %d connections that are not admitted, and %d wait for room", s.door.unadmitted.most, s.door.unadmitted.longest)
	}
	select {
	case s.polite <- struct{}{}:
		defer func() { <-s.polite }()
		s.Protocol.Refuse(client, text)
	default:
	}
}
