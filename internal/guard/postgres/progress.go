package postgres

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

var (
	// errDrained ends the relay of a session that was idle when the guard shut down.
	errDrained = errors.New("the guard is shutting down")
	// errOvertaken ends the relay of a session that was at rest when a newer leader came.
	errOvertaken = errors.New("a newer leader has raised the mark")
	// errUnused ends the relay of a session that was idle for too long.
	errUnused = errors.New("the session was idle for too long")
)

// progress tracks whether a session is at rest: the server has answered everything that it was
// passed. Both directions of its relay share it, so that a shutdown cuts off no request that was
// already passed on.
type progress struct {
	mu         sync.Mutex
	pending    int  // requests passed on that the server has not answered with ReadyForQuery
	unsynced   bool // extended-protocol messages were passed on since the last Sync
	midMessage bool // the client's last message is passed on in part
	status     byte // of the last ReadyForQuery: I idle, T in a transaction, E in a failed one
	failed     bool // there was an error in the last answer
	draining   bool
	closed     error // why nothing more from the client may be passed on

	stop context.CancelCauseFunc // ends the relay
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

// answer is a ReadyForQuery, and whether an error came before it.
type answer struct {
	status byte
	failed bool
}

// ready records an answer of the server.
func (p *progress) ready(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending > 0 {
		p.pending--
	}
	p.status, p.failed = a.status, a.failed
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
	if p.draining && p.closed == nil && p.atRest() && p.status == 'I' {
		p.closed = errDrained
		p.stop(errDrained)
	}
}

// lastWord returns what the client of a session is told that a shutdown has ended. The relay has ended.
func (p *progress) lastWord() *pgproto3.ErrorResponse {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.atRest():
		return unanswered()
	case p.status == 'I':
		return shuttingDown()
	}
	return rolledBack()
}

// endUnused ends the session if it is idle and unused reports, while nothing can be passed on, that
// nothing was.
func (p *progress) endUnused(unused func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed == nil && p.atRest() && p.status == 'I' && unused() {
		p.closed = errUnused
		p.stop(errUnused)
	}
}

func (p *progress) atRest() bool { return p.pending == 0 && !p.unsynced && !p.midMessage }

// state returns what the session does.
func (p *progress) state() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return activity(!p.atRest(), p.status)
}

// activity says what a session does, in the words of pg_stat_activity. status is that of the last
// ReadyForQuery.
func activity(busy bool, status byte) string {
	switch {
	case busy:
		return "active"
	case status == 'T':
		return "idle in transaction"
	case status == 'E':
		return "idle in transaction (aborted)"
	}
	return "idle"
}

// Quiet implements marks.Relayed. After an error the session does not count as at rest: a backend
// that fails while it waits for a request sends an answer to none, and the answer to a request that
// was passed on meanwhile is still to come.
func (p *progress) Quiet() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed == nil && p.atRest() && !p.failed {
		p.closed = errOvertaken
	}
	return errors.Is(p.closed, errOvertaken)
}

// End implements marks.Relayed.
func (p *progress) End() { p.stop(errOvertaken) }
