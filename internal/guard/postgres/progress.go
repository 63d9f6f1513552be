package postgres

import (
	"errors"
	"sync"
)

// errDrained ends the relay of a session that was idle when the guard shut down.
var errDrained = errors.New("the guard is shutting down")

// progress tracks whether a session is idle. Both directions of its relay share it, so that a
// shutdown cuts off no request that was already passed on.
type progress struct {
	mu         sync.Mutex
	pending    int  // requests passed on that the server has not answered with ReadyForQuery
	unsynced   bool // extended-protocol messages were passed on since the last Sync
	midMessage bool // the client's last message is passed on in part
	status     byte // of the last ReadyForQuery: I idle, T in a transaction, E in a failed one
	draining   bool
	drained    bool // nothing more from the client may be passed on

	idle func() // called once, when the session is draining and idle
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

// ready records a ReadyForQuery of the server.
func (p *progress) ready(status byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending > 0 {
		p.pending--
	}
	p.status = status
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
	unanswered := p.pending > 0 || p.unsynced || p.midMessage
	if p.draining && !p.drained && !unanswered && p.status == 'I' {
		p.drained = true
		p.idle()
	}
}
