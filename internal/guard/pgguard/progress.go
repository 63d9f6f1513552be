package pgguard

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

var (
	// errDrained ends the relay of a session that was idle when the guard shut down.
	errDrained = errors.New("the guard is shutting down")
	// errOvertaken ends the relay of a session that was at rest when a newer leader came.
	errOvertaken = errors.New("a newer leader has raised the mark")
	// errUnused ends the relay of a session that was idle for too long.
	errUnused = errors.New("the session was idle for too long")
	// errMoved ends the relay of a session at a server that is no longer the primary.
	errMoved = errors.New("another server is the primary now")
)

// progress tracks whether a session is at rest: the server has answered everything that it was
// passed. Both directions of its relay share it.
//
// It can only guess that, because it counts answers, and a client can have the server send one that
// nobody asked for. So the guess decides whom to ask: the guard passes on nothing more of the
// client, and sends a statement of its own (marks.Proof). The session was at rest if the server
// then shows that it has run that statement and waits.
type progress struct {
	server net.Conn // where the statement of the proof goes

	mu         sync.Mutex
	pending    int  // requests passed on that the server has not answered with ReadyForQuery
	unsynced   bool // extended-protocol messages were passed on since the last Sync
	midMessage bool // the client's last message is passed on in part
	passing    bool // something that is counted is not written yet
	status     byte // of the last ReadyForQuery: I idle, T in a transaction, E in a failed one
	draining   bool
	closed     error // why nothing more from the client is passed on
	statement  string
	answered   chan struct{} // closed when the server has answered something after that
	signs      sync.Once
	proved     bool // the server has agreed that the session was at rest

	silent atomic.Bool // closed is set: what the server sends is not passed on

	stop context.CancelCauseFunc // ends the relay
	// proves that the session is at rest, and ends it, in the background
	finish func()
}

// sent records a message of the client. The caller holds mu.
func (p *progress) sent(kind byte) {
	switch kind {
	case 'Q', 'F', 'S':
		p.pending++
		p.unsynced = false
	case 'P', 'B', 'E', 'D', 'C', 'H':
		p.unsynced = true
	}
}

// passed records that everything is written that was counted.
func (p *progress) passed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passing = false
	p.drainIfIdle()
}

// ready records a ReadyForQuery of the server.
func (p *progress) ready(status byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending > 0 {
		p.pending--
	}
	p.status = status
	if p.closed != nil {
		p.signs.Do(func() { close(p.answered) })
	}
	p.drainIfIdle()
}

// drain ends the session as soon as it is idle, which may be at once.
func (p *progress) drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	p.drainIfIdle()
}

func (p *progress) drainIfIdle() {
	if p.draining && p.status == 'I' && p.shut(errDrained) {
		p.finish()
	}
}

// endUnused ends the session if it is idle and unused reports, while nothing can be passed on, that
// nothing was.
func (p *progress) endUnused(unused func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status == 'I' && unused() && p.shut(errUnused) {
		p.finish()
	}
}

func (p *progress) atRest() bool {
	return p.pending == 0 && !p.unsynced && !p.midMessage && !p.passing
}

// shut has the relay pass on nothing more, if the session seems to be at rest and nobody has done
// so before. Then the caller has it proved. The caller holds mu.
func (p *progress) shut(why error) bool {
	if p.closed != nil || !p.atRest() {
		return false
	}
	p.closed, p.statement, p.answered = why, pgmarks.NewTag(), make(chan struct{})
	p.silent.Store(true)
	return true
}

// Quiet implements marks.Relayed.
func (p *progress) Quiet() (marks.Proof, bool) {
	p.mu.Lock()
	first := p.shut(errOvertaken)
	quiet, proof := errors.Is(p.closed, errOvertaken), marks.Proof{
		Statement: p.statement, Answered: p.answered,
	}
	p.mu.Unlock()
	if first {
		p.ask(time.Now().Add(askTime))
	}
	return proof, quiet
}

// is reports whether the session was shut because of why.
func (p *progress) is(why error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Is(p.closed, why)
}

// askTime bounds the sending of a proof's statement while a newcomer waits. A server that is at
// rest reads at once.
const askTime = 10 * time.Millisecond

// ask sends the statement of the proof, behind everything that was passed on. If that fails there
// will be no proof.
func (p *progress) ask(until time.Time) { _ = p.send(&pgproto3.Query{String: p.statement}, until) }

// terminate has the server close the connection, behind all that it sends before.
func (p *progress) terminate(until time.Time) error { return p.send(&pgproto3.Terminate{}, until) }

func (p *progress) send(m pgproto3.FrontendMessage, until time.Time) error {
	_ = p.server.SetWriteDeadline(until)
	return wire.Send(p.server, m)
}

// End implements marks.Relayed.
func (p *progress) End() { p.stop(errOvertaken) }
