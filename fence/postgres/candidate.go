package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// candidate is a row in an election.
type candidate struct {
	s        *session
	resource fence.Resource
	holder   string
	id       string
	token    fence.Token // 0 until it is known; the session's mutex guards it
	look     time.Time   // when to look at it again, or zero; the session's mutex guards it

	turn chan struct{} // closed when the candidate leads, or is gone

	mu     sync.Mutex
	leads  bool
	issuer fence.Issuer  // when it was seen to lead
	cause  error         // once it is gone
	keeper *fence.Keeper // once it has won
}

// forget takes the candidate from those that the session knows.
func (e *candidate) forget() {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	delete(e.s.known, e.id)
}

// leave gives the row up. The session deletes it as soon as the server answers.
func (e *candidate) leave() {
	e.forget()
	kick(e.s.nudge)
}

// lead records that the candidate leads.
func (e *candidate) lead(issuer fence.Issuer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.leads && e.cause == nil {
		e.leads, e.issuer = true, issuer
		close(e.turn)
	}
}

// waits returns whether the candidate neither leads nor is gone.
func (e *candidate) waits() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.leads && e.cause == nil
}

// lose records that the candidate is gone.
func (e *candidate) lose(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause == nil {
		e.cause = cause
		if !e.leads {
			close(e.turn)
		}
	}
	if e.keeper != nil {
		e.keeper.Lose(cause)
	}
}

// confirm records that the candidate existed in its session at some time after start.
func (e *candidate) confirm(start time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keeper != nil {
		e.keeper.Confirm(start)
	}
}

// suspend records that the server has not answered.
func (e *candidate) suspend() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keeper != nil {
		e.keeper.Suspend()
	}
}

// await waits until the candidate leads, and returns the issuer as it was at that moment.
func (e *candidate) await(ctx context.Context) (fence.Issuer, error) {
	select {
	case <-e.turn:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.issuer, e.cause
}
