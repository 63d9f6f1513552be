package fence

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/fence/internal/bridge"
)

// State is the state of a term. The package documentation shows the transitions.
type State int

const (
	Active    State = iota // confirmed by the coordinator within the session timeout
	Suspended              // the coordinator is out of reach; work may continue, wait, or stop
	Lost                   // over, for good
)

// String returns the state in one word.
func (s State) String() string { return [...]string{"active", "suspended", "lost"}[s] }

// backing and keeper are the two sides of a term that fence/elector has, and explains.
type backing = interface {
	Acknowledge(ctx context.Context) error
	Release(ctx context.Context) error
}

type keeper = interface {
	Confirm(start time.Time)
	Suspend()
	Lose(cause error)
}

func init() { bridge.NewTerm = newTerm }

// Term is one unbroken period of leadership. It exists only once it is won, and never again after
// it is lost. Its methods may be called from any goroutine.
type Term struct {
	claim   Claim
	timeout time.Duration
	backing backing
	ctx     context.Context
	cancel  context.CancelCauseFunc

	mu       sync.Mutex
	state    State
	deadline time.Time // monotonic; passed means lost
	expiry   *time.Timer
	changed  chan struct{} // closed at the next change of state

	releasing atomic.Bool   // some call of Resign has begun to release
	released  chan struct{} // closed when that has ended
	result    error         // of the release, once released is closed
}

// newTerm is elector.NewTerm.
func newTerm(claim Claim, confirmed time.Time, timeout time.Duration, b backing) (*Term, keeper) {
	ctx, cancel := context.WithCancelCause(context.Background())
	t := &Term{
		claim: claim, timeout: timeout, backing: b, ctx: ctx, cancel: cancel,
		deadline: confirmed.Add(timeout), changed: make(chan struct{}), released: make(chan struct{}),
	}
	t.mu.Lock() // expire may run before AfterFunc returns
	t.expiry = time.AfterFunc(time.Until(t.deadline), t.expire)
	t.mu.Unlock()
	k := kept{t}
	k.Confirm(confirmed)
	return t, k
}

// Claim returns the claim that this term's sessions present to stores.
func (t *Term) Claim() Claim { return t.claim }

// Token returns the term's token.
func (t *Term) Token() Token { return t.claim.Token }

// Context returns a context that ends when the term is lost; context.Cause says why (ErrExpired,
// ErrDeposed, ErrResigned, ErrSuperseded).
func (t *Term) Context() context.Context { return t.ctx }

// State returns the current state.
func (t *Term) State() State {
	state, _ := t.Watch()
	return state
}

// Watch returns the current state and a channel that is closed when it changes.
func (t *Term) Watch() (State, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked() // the timer may be late if the process was paused, or its machine was suspended
	return t.state, t.changed
}

// Deadline returns the time at which the term is lost unless the coordinator answers before, on the
// monotonic clock. The coordinator elects no other leader earlier, except for the lag between its
// servers, which the elector's package documents.
func (t *Term) Deadline() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deadline
}

// Wait returns nil at once while the term is active, waits while it is suspended, and returns the
// cause once it is lost. Call it between steps of work. It returns ctx's cause when ctx ends first.
func (t *Term) Wait(ctx context.Context) error {
	for {
		state, changed := t.Watch()
		switch state {
		case Active:
			return nil
		case Lost:
			return context.Cause(t.ctx)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Acknowledge publishes at the coordinator that this leader is ready, not only elected. Call it
// after the mark is raised on every store. It returns the cause if the term is lost.
func (t *Term) Acknowledge(ctx context.Context) error {
	if t.State() == Lost {
		return context.Cause(t.ctx)
	}
	return t.backing.Acknowledge(ctx)
}

// Resign ends the term, and the next candidate takes over at once. Stop your work first. You may
// call Resign more than once, and after the term is lost; it affects no newer term. An error means
// that the coordinator may not know: the term is over, but the next candidate may have to wait for
// the session timeout. Only the first call talks to the coordinator. Another one returns its error,
// or the cause of its own ctx if that ends before.
func (t *Term) Resign(ctx context.Context) error {
	t.lose(ErrResigned)
	if t.releasing.CompareAndSwap(false, true) {
		t.result = t.backing.Release(ctx)
		close(t.released)
	}
	select {
	case <-t.released:
		return t.result
	default:
	}
	select {
	case <-t.released:
		return t.result
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Supersede ends the term because a store has refused its token as stale. why is the refusal.
func (t *Term) Supersede(why error) { t.lose(fmt.Errorf("%w: %w", ErrSuperseded, why)) }

// kept is the keeper of a term.
type kept struct{ *Term }

// Confirm implements elector.Keeper.
func (k kept) Confirm(start time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.expireLocked()
	if k.state == Lost {
		return
	}
	if next := start.Add(k.timeout); next.After(k.deadline) {
		k.deadline = next
		k.expiry.Reset(time.Until(next))
	}
	k.move(Active)
}

// Suspend implements elector.Keeper.
func (k kept) Suspend() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.state == Active {
		k.move(Suspended)
	}
}

// Lose implements elector.Keeper.
func (k kept) Lose(cause error) { k.lose(cause) }

// expire runs at the deadline. A Confirm that came in between has extended it.
func (t *Term) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked()
}

func (t *Term) expireLocked() {
	if t.state != Lost && !time.Now().Before(t.deadline) {
		t.loseLocked(ErrExpired)
	}
}

func (t *Term) lose(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loseLocked(cause)
}

func (t *Term) loseLocked(cause error) {
	if t.state == Lost {
		return
	}
	t.expiry.Stop()
	t.cancel(cause)
	t.move(Lost)
}

// move changes the state and wakes the watchers. The caller holds mu.
func (t *Term) move(to State) {
	if t.state == to {
		return
	}
	t.state = to
	close(t.changed)
	t.changed = make(chan struct{})
}
