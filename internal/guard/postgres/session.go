package postgres

import (
	"errors"
	"sync"
)

// errDrained ends the relay of a session that a shutting-down guard found idle.
var errDrained = errors.New("the guard is shutting down")

// session is what both directions of a relay know together: whether anything is under way. It exists so that a
// shutdown cuts no request that was already passed on.
type session struct {
	mu       sync.Mutex
	pending  int  // requests passed on that the server has not answered with ReadyForQuery
	open     bool // extended-protocol messages passed on since the last Sync
	mid      bool // the client's last message is passed on in part
	status   byte // of the last ReadyForQuery: I idle, T in a transaction, E in a failed one
	draining bool
	drained  bool // nothing more of the client's may be passed on

	idle func() // called once, when draining finds the session idle
}

// upstream is called before bytes of the client are passed on; it fails once the session is drained.
func (s *session) upstream() error {
	if s.drained {
		return errDrained
	}
	return nil
}

// sent records a message of the client.
func (s *session) sent(kind byte) {
	switch kind {
	case 'Q', 'F', 'S':
		s.pending++
		s.open = false
	case 'P', 'B', 'E', 'D', 'C', 'H':
		s.open = true
	}
}

// ready records a ReadyForQuery of the server.
func (s *session) ready(status byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pending > 0 {
		s.pending--
	}
	s.status = status
	s.drainIfIdle()
}

// drain ends the session as soon as it is idle, which may be now.
func (s *session) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.drainIfIdle()
}

func (s *session) drainIfIdle() {
	if s.draining && !s.drained && s.pending == 0 && !s.open && !s.mid && s.status == 'I' {
		s.drained = true
		s.idle()
	}
}
