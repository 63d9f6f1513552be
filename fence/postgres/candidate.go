package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/internal/campaign"
)

// candidate is a row in an election. Its key is the row's id.
type candidate struct {
	campaign.Standing
	s     *session
	leads chan struct{} // closed when the candidate is seen to lead

	mu     sync.Mutex
	look   time.Time    // when to look at it again, or zero
	issuer fence.Issuer // when it was seen to lead
}

// Leave implements campaign.Candidate.
func (e *candidate) Leave() { e.s.Leave(e.Key) }

// Watch implements campaign.Candidate. Notices come to the session, for all of its candidates.
func (e *candidate) Watch(context.Context) {}

// lead records that the candidate leads.
func (e *candidate) lead(issuer fence.Issuer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.leads:
	default:
		e.issuer = issuer
		close(e.leads)
	}
}

// waits returns whether the candidate neither leads nor is gone.
func (e *candidate) waits() bool {
	select {
	case <-e.leads:
	case <-e.Gone():
	default:
		return true
	}
	return false
}

// Await implements campaign.Candidate. The session was renewed less than half of its timeout ago
// then.
func (e *candidate) Await(ctx context.Context) (issuer fence.Issuer, renewed time.Time, err error) {
	if e.waits() {
		e.s.plan(e, time.Now())
	}
	select {
	case <-e.leads:
	case <-e.Gone():
		return "", time.Time{}, e.Cause()
	case <-ctx.Done():
		return "", time.Time{}, context.Cause(ctx)
	}
	e.mu.Lock()
	issuer = e.issuer
	e.mu.Unlock()
	renewed, err = e.s.Renewed(ctx)
	return issuer, renewed, err
}
