package guardtest

import (
	"context"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// SlowStore registers no session: Register waits until its context ends.
type SlowStore struct {
	marks.Store
	Registering chan struct{} // closed by the first Register; the test makes it
}

// Register is marks.Store's.
func (s SlowStore) Register(
	ctx context.Context, _ marks.SessionID, _ []fence.Claim,
) (marks.Registration, error) {
	close(s.Registering)
	<-ctx.Done()
	return marks.Registration{}, ctx.Err()
}

// Liveness is a guard.Looker that shows a test the first question. A guard asks when it cannot
// write to a client.
type Liveness struct {
	find  func(ctx context.Context, s marks.SessionID) (alive bool, err error)
	asked chan struct{} // holds the first question
}

// NewLiveness makes a Liveness that answers with find, which reads the database itself.
func NewLiveness(
	find func(ctx context.Context, s marks.SessionID) (alive bool, err error),
) *Liveness {
	return &Liveness{find: find, asked: make(chan struct{}, 1)}
}

// Alive is guard.Looker's.
func (l *Liveness) Alive(ctx context.Context, s marks.SessionID) (alive bool, err error) {
	select {
	case l.asked <- struct{}{}:
	default:
	}
	return l.find(ctx, s)
}

// Await waits until the guard has asked: the client has then taken nothing for the guard's Stall.
func (l *Liveness) Await(t testing.TB) {
	t.Helper()
	select {
	case <-l.asked:
	case <-time.After(time.Minute):
		t.Fatal("the guard has not asked whether the session lives")
	}
}
