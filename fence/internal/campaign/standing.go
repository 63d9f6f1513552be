package campaign

import (
	"path"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// Standing is how a candidate stands, as far as its process knows.
type Standing struct {
	Resource fence.Resource
	Holder   string
	Key      string // no other candidate of the coordinator ever has it; it ends in the candidate's ID

	mu     sync.Mutex
	token  fence.Token     // 0 until it is known
	cause  error           // once it is gone
	gone   chan struct{}   // closed once it is gone; nil until somebody needs it
	keeper *elector.Keeper // once it has won
}

func (e *Standing) standing() *Standing { return e }

// ID returns the candidate's identity (elector.Candidate.ID).
func (e *Standing) ID() string { return path.Base(e.Key) }

// Claim returns the claim of the candidate under an issuer, once it has enrolled.
func (e *Standing) Claim(issuer fence.Issuer) fence.Claim {
	return fence.Claim{
		Resource: e.Resource, Token: e.Token(), Issuer: issuer, Holder: e.Holder, Candidate: e.ID(),
	}
}

// Token returns the token, or 0 while it is not known.
func (e *Standing) Token() fence.Token {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.token
}

// Enrolled records the token.
func (e *Standing) Enrolled(token fence.Token) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.token = token
}

// Gone returns a channel that is closed when the candidate is lost.
func (e *Standing) Gone() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.goneLocked()
}

func (e *Standing) goneLocked() chan struct{} {
	if e.gone == nil {
		e.gone = make(chan struct{})
	}
	return e.gone
}

// Cause returns why the candidate is lost, or nil.
func (e *Standing) Cause() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}

// Lose records that the candidate is gone, and ends its term. The first cause stays.
func (e *Standing) Lose(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause == nil {
		e.cause = cause
		close(e.goneLocked())
	}
	if e.keeper != nil {
		e.keeper.Lose(cause)
	}
}

// Confirm records that the candidate was there, in its session, at some time after start.
func (e *Standing) Confirm(start time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keeper != nil {
		e.keeper.Confirm(start)
	}
}

// Suspend records that the coordinator is out of reach.
func (e *Standing) Suspend() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.keeper != nil {
		e.keeper.Suspend()
	}
}

// begin makes the term, unless the candidate is lost by now. The session tells it of every beat
// from here on.
func (e *Standing) begin(
	c fence.Claim, confirmed time.Time, timeout time.Duration, b elector.Backing,
) (*fence.Term, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cause != nil {
		return nil, e.cause
	}
	term, keeper := elector.NewTerm(c, confirmed, timeout, b)
	e.keeper = keeper
	return term, nil
}
