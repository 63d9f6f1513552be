package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ringfence/ringfence/internal/backoff"
)

const (
	restTime  = 5 * time.Second        // bounds the proof of a session that has time
	lastTime  = 500 * time.Millisecond // bounds the proof of one whose time is over
	firstLook = 10 * time.Millisecond  // before the first look there should be a sign of an answer
)

// finish has the server agree that a session that was shut is at rest, and ends it. It runs in the
// background until the session closes.
func (s *session) finish() {
	ctx, cancel := context.WithTimeout(s.ctx, restTime)
	defer cancel()
	s.prove(ctx)
	s.stop(s.down.progress.closed)
}

// proveAtLast does the same for a session in a transaction whose time is over. Its relay has ended.
func (s *session) proveAtLast() {
	p := s.down.progress
	p.mu.Lock()
	shut := p.shut(errDrained)
	p.mu.Unlock()
	if shut {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), lastTime)
		defer cancel()
		s.prove(ctx)
	}
}

// prove sends the statement of the proof, and asks the store until it agrees, or until ctx ends.
func (s *session) prove(ctx context.Context) {
	p := s.down.progress
	p.ask()
	select { // the first look should be the last
	case <-p.answered:
	case <-time.After(firstLook):
	case <-ctx.Done():
	}
	for n := 1; !p.proved && ctx.Err() == nil; n++ {
		if p.proved = s.at.db.Admission.LetGo(ctx, s.id, s.claims, p.statement); !p.proved {
			backoff.Pause(ctx, backoff.After(n, firstLook, 100*time.Millisecond))
		}
	}
}

// lastWord returns what the client of a session is told that a shutdown has ended. The relay has
// ended, and nobody changes the progress any more.
func (s *session) lastWord() *pgproto3.ErrorResponse {
	switch p := s.down.progress; {
	case !p.proved:
		return unanswered()
	case p.status == 'I':
		return shuttingDown()
	}
	return rolledBack()
}
