package pgguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard/databases"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/guard/relay"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/backoff"
)

// session is a session that may be admitted. It keeps no more of its login than it needs, because
// it may be idle for days.
type session struct {
	p      *Protocol
	at     *databases.Selected
	client *guard.Client
	server net.Conn
	until  context.Context // ends when the server is no longer the primary
	id     marks.SessionID // zero if the session was not registered
	claims []marks.Presented

	// While it is relayed:
	ctx          context.Context
	stop         context.CancelCauseFunc // ends the relay
	stopWatching func()
	stopCutting  func() bool
	stopMoving   func() bool
	stopIdle     func()
	relay        *relay.Relay
	down         *down
	finishing    sync.WaitGroup // finish
}

// start starts to relay the session. What the login has read ahead goes first.
func (s *session) start(ctx context.Context, fromClient, fromServer []byte) {
	s.ctx, s.stop = context.WithCancelCause(context.WithoutCancel(ctx)) // cut ends it
	s.server = s.client.Adopt(s.server)
	state := &progress{server: s.server, status: 'I', stop: s.stop}
	state.finish = func() { s.finishing.Go(func() { s.finish(restTime) }) }
	s.down = &down{progress: state} // before anything can end the session
	s.at.Admission.Relaying(s.id, s.claims, state)
	s.stopWatching = s.client.WhenDraining(state.drain)
	client := relay.Leg{Conn: s.client.Conn(), Early: fromClient}
	server := relay.Leg{Conn: s.server, Early: fromServer}
	var sessions guard.SessionProber = s.at.Store
	if s.p.o.Sessions != nil {
		sessions = s.p.o.Sessions
	}
	liveness := guard.LivenessOf(sessions, s.id, s.p.o.Stall)
	s.relay = relay.Start(s.ctx, client, server, &up{progress: state}, s.down, liveness)
	s.stopCutting = relay.WhenOver(ctx, func() { s.cut(context.Cause(ctx)) })
	s.stopMoving = relay.WhenOver(s.until, func() { s.stop(errMoved) })
	s.stopIdle = guard.WhenIdle(s.p.o.IdleTimeout, s.relay,
		func(_ context.Context, unused func() bool) {
			state.endUnused(unused)
		})
}

// serve returns when the session has ended. If the client did not leave by itself, it gets the
// reason.
func (s *session) serve(ctx context.Context) error {
	defer s.close(ctx) // also when a walker panics
	return s.end(s.relay.Wait())
}

// close closes the upstream connection, releases the session, and leaves its database.
func (s *session) close(ctx context.Context) {
	if s.relay != nil {
		s.finished()
	}
	_ = s.server.Close()
	if s.id != (marks.SessionID{}) {
		s.at.Admission.Release(ctx, s.id, s.claims)
	}
	s.at.Leave()
}

// finished ends all that may end the session, and waits for it. It may be called twice.
func (s *session) finished() {
	s.stopIdle()
	s.stopWatching()
	s.stopCutting()
	s.stopMoving()
	s.stop(nil)
	s.finishing.Wait()
}

// end closes the connection of a client whose session has ended, and sends it the reason if a
// message may begin there.
func (s *session) end(end relay.End) error {
	p := s.down.progress
	overtaken, drained := p.is(errOvertaken), s.ctx.Err() != nil // whichever side has ended first
	if end.Side == relay.ServerSide && (p.is(errDrained) || p.is(errUnused)) {
		drained = true // the server has closed the connection because finish has told it to
	}
	drained = drained && !overtaken
	s.finished()
	if drained && !s.moved() {
		s.endUnproved()
	}
	_ = s.server.Close()
	s.client.Seat.Leave()
	if end.Side == relay.ClientSide && !drained && !overtaken && s.down.shutdown == nil {
		if wire.IsViolation(end.Err) {
			return end.Err
		}
		return nil // the client has left, in whatever way
	}
	if errors.Is(end.Err, relay.ErrStuck) {
		return guard.Stuck
	}
	if s.down.mayAppend() {
		word := s.lastWord(drained, s.down.whole(end))
		_ = s.client.SetDeadline(time.Now().Add(guard.LastWordTime))
		if len(word) > 0 {
			_, _ = s.client.Write(word)
		}
	}
	guard.CloseGently(s.client)
	if p.is(errUnused) {
		return guard.Unused
	}
	return nil
}

// moved reports whether the session was ended because its server is no longer the primary.
func (s *session) moved() bool { return errors.Is(context.Cause(s.ctx), errMoved) }

// lastWord returns the reason for the client: another primary, an idle session, the shutdown of the
// guard, a newer leader, or what the server said. The relay has ended, and nobody changes the
// progress any more. whole is true if all that the server sent was seen.
//
// The proof says that the session rests now. That nothing has run since the client's last answer
// takes more: the server has sent nothing since but the answer to the proof.
func (s *session) lastWord(drained, whole bool) []byte {
	p := s.down.progress
	nothingRan := p.proved && whole && s.down.onlyProof()
	switch {
	case s.moved():
		return wire.Fatal(wire.Moved(p.status == 'I' && p.atRest()))
	case drained && p.is(errUnused) && nothingRan:
		// what Postgres says after its own idle_session_timeout
		return wire.Fatal(&wire.Error{
			Code: wire.IdleSessionTimeout, Message: "terminating connection due to idle-session timeout",
			Detail: fmt.Sprintf("nothing has come from either side for %s, and no transaction was open",
				s.p.o.IdleTimeout),
			Hint: "connect again; GUARD_IDLE_TIMEOUT of the guard sets the time",
		})
	case drained && p.is(errUnused):
		return wire.Fatal(wire.Unconfirmed("the session was idle for too long"))
	case drained && !nothingRan:
		return wire.Fatal(wire.Unanswered)
	case drained && p.status == 'I':
		return wire.Fatal(wire.ShuttingDown)
	case drained:
		return wire.Fatal(wire.RolledBack)
	}
	if why := s.at.Admission.Ended(context.WithoutCancel(s.ctx), s.claims); why != nil {
		return wire.Fatal(why)
	}
	if s.down.silent {
		return nil
	}
	return s.down.shutdown
}

const (
	restTime  = 5 * time.Second        // bounds the proof of a session that has time
	lastTime  = 500 * time.Millisecond // bounds the proof of one whose time is over
	endTime   = 2 * time.Second        // bounds the end of a backend that gives no proof
	firstLook = 10 * time.Millisecond  // before the first look there should be a sign of an answer
)

// finish has the server agree that a session that was shut is at rest, and ends it, within a time.
// It runs in the background until the session closes. Once there is a proof, it has the server
// close the connection. So the relay sees all that the server has sent before.
func (s *session) finish(within time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, within)
	defer cancel()
	s.prove(ctx)
	until, _ := ctx.Deadline()
	if p := s.down.progress; p.proved {
		_ = p.terminate(until) // fails if another guard has ended the backend meanwhile
		<-ctx.Done()           // the relay ends first, unless the connection is stuck
	}
	s.stop(s.down.progress.closed)
}

// cut ends a session whose time is over, in a transaction or not.
func (s *session) cut(why error) {
	p := s.down.progress
	p.mu.Lock()
	shut := p.shut(errDrained)
	p.mu.Unlock()
	if shut {
		s.finishing.Go(func() { s.finish(lastTime) })
		return
	}
	s.stop(why)
}

// endUnproved ends the backend of a session that is not proved to be at rest: what it runs would go
// on, since Postgres looks at a connection only between statements. If that fails, it does go on.
func (s *session) endUnproved() {
	if s.down.progress.proved || s.id == (marks.SessionID{}) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), endTime)
	defer cancel()
	_ = s.at.Store.End(ctx, s.id)
}

// prove sends the statement of the proof, and asks the store until it agrees, or until ctx ends.
func (s *session) prove(ctx context.Context) {
	p := s.down.progress
	until, _ := ctx.Deadline()
	p.ask(until)
	select { // the first look should be the last
	case <-p.answered:
	case <-time.After(firstLook):
	case <-ctx.Done():
	}
	for n := 1; !p.proved && ctx.Err() == nil; n++ {
		if p.proved = s.at.Admission.LetGo(ctx, s.id, s.claims, p.statement); !p.proved {
			backoff.Pause(ctx, backoff.After(n, firstLook, 100*time.Millisecond))
		}
	}
}
