package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/relay"
)

// session is a session that may be admitted. It keeps no more of its login than it needs, because it
// may be idle for days.
type session struct {
	p      *Protocol
	at     *place
	client *guard.Client
	server net.Conn
	id     marks.Session // zero if the session was not registered
	claims []marks.Presented

	// While it is relayed:
	ctx          context.Context
	stop         context.CancelCauseFunc // ends the relay
	stopWatching func()
	stopIdle     func()
	relay        *relay.Relay
	down         *down
	finishing    sync.WaitGroup // finish
}

// start starts to relay the session. What the login has read ahead goes first.
func (s *session) start(ctx context.Context, fromClient, fromServer []byte) {
	s.ctx, s.stop = context.WithCancelCause(ctx)
	s.server = s.client.Adopt(s.server)
	state := &progress{server: s.server, status: 'I', stop: s.stop}
	state.finish = func() { s.finishing.Go(s.finish) }
	s.down = &down{progress: state} // before anything can end the session
	s.at.db.Admission.Relaying(s.id, s.claims, state)
	s.stopWatching = s.client.WhenDraining(state.drain)
	client := relay.Leg{Conn: s.client.Conn(), Early: fromClient}
	server := relay.Leg{Conn: s.server, Early: fromServer}
	var sessions guard.Sessions = s.at.db.Store
	if s.p.o.Sessions != nil {
		sessions = s.p.o.Sessions
	}
	liveness := guard.LivenessOf(sessions, s.id, s.p.o.Stall)
	s.relay = relay.Start(s.ctx, client, server, &up{progress: state}, s.down, liveness)
	s.stopIdle = guard.WhenIdle(s.p.o.IdleTimeout, s.relay, func(_ context.Context, unused func() bool) {
		state.endUnused(unused)
	})
}

// wait returns when the session has ended. If the client did not leave by itself, it gets the
// reason.
func (s *session) wait(ctx context.Context) error {
	defer s.close(ctx) // also when a walker panics
	return s.end(s.relay.Wait())
}

// close closes the upstream connection, releases the session, and leaves its database.
func (s *session) close(ctx context.Context) {
	if s.relay != nil {
		s.stopIdle()
		s.stopWatching()
		s.stop(nil)
		s.finishing.Wait()
	}
	_ = s.server.Close()
	if s.id != (marks.Session{}) {
		s.at.db.Admission.Release(ctx, s.id, s.claims)
	}
	s.at.leave()
}

// end closes the connection of a client whose session has ended, and sends it the reason if a
// message may begin there.
func (s *session) end(end relay.End) error {
	s.stopIdle()
	s.stopWatching()
	overtaken := s.down.progress.overtaken() // whichever side has ended first
	drained := s.ctx.Err() != nil && !overtaken
	s.stop(nil)
	s.finishing.Wait()
	if drained {
		s.proveAtLast()
	}
	_ = s.server.Close()
	s.client.Seat.Leave()
	if end.Side == relay.ClientSide && !drained && !overtaken && s.down.shutdown == nil {
		return clientError(end.Err)
	}
	if errors.Is(end.Err, relay.ErrStuck) {
		return guard.Stuck
	}
	if errors.Is(context.Cause(s.ctx), errUnused) {
		return s.endUnused()
	}
	if s.down.mayAppend() {
		s.sendReason(drained)
	}
	guard.CloseGently(s.client)
	return nil
}

// endUnused tells the client what Postgres would after its own idle_session_timeout.
func (s *session) endUnused() error {
	if s.down.mayAppend() {
		_ = s.client.SetDeadline(time.Now().Add(guard.LastWordTime))
		word := unconfirmed("the session was idle for too long")
		if s.down.progress.proved {
			word = fatal(idleSessionTimeout,
				"terminating connection due to idle-session timeout",
				fmt.Sprintf("nothing has come from either side for %s, and no transaction was open",
					s.p.o.IdleTimeout), "connect again; GUARD_IDLE_TIMEOUT of the guard sets the time")
		}
		_ = send(s.client, word)
	}
	guard.CloseGently(s.client)
	return guard.Unused
}

// sendReason sends the client the reason: the shutdown of the guard, a newer leader, or what the
// server said.
func (s *session) sendReason(drained bool) {
	var why error
	if !drained {
		why = s.at.db.Admission.Ended(context.WithoutCancel(s.ctx), s.claims)
	}
	// Ended may have taken longer than any deadline that was set before it.
	_ = s.client.SetDeadline(time.Now().Add(guard.LastWordTime))
	switch {
	case drained:
		_ = send(s.client, s.lastWord())
	case why != nil:
		_ = send(s.client, errorResponse(why))
	default:
		_ = s.down.forward(s.client, s.down.shutdown)
	}
}

// clientError returns err if the client violated the protocol, and nil if it left, in whatever way.
func clientError(err error) error {
	var bad *protocolError
	if errors.As(err, &bad) {
		return err
	}
	return nil
}
