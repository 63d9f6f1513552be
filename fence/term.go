package fence

import (
	"context"
	"fmt"
	"sync"
	"time"
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

// Backing is the coordinator's side of a term. Its methods affect this term and no other.
type Backing interface {
	// Acknowledge publishes that this leader is ready, or will as soon as the coordinator takes
	// writes. It fails once the term is over at the coordinator.
	Acknowledge(ctx context.Context) error
	// Release gives the term up at the coordinator and frees what belongs to it. It is called once,
	// after the term is lost. After an error the next leader may have to wait for the session
	// timeout.
	Release(ctx context.Context) error
}

// Term is one unbroken period of leadership. It exists only once it is won, and never again after
// it is lost. Its methods may be called from any goroutine.
type Term struct {
	claim   Claim
	timeout time.Duration
	backing Backing
	ctx     context.Context
	cancel  context.CancelCauseFunc

	mu       sync.Mutex
	state    State
	deadline time.Time // monotonic; passed means lost
	expiry   *time.Timer
	changed  chan struct{} // closed at the next change of state

	release  sync.Once
	released error
}

// Keeper is the elector's side of a Term. The elector reports the coordinator's answers to it.
type Keeper struct{ t *Term }

// NewTerm makes the term that an elector has just won. confirmed is the start of the round trip
// that proved it, and timeout is the session timeout that the coordinator granted. The term is lost
// at confirmed+timeout unless Confirm extends it. NewTerm returns a lost term if that time has
// passed.
func NewTerm(
	claim Claim, confirmed time.Time, timeout time.Duration, backing Backing,
) (*Term, *Keeper) {
	ctx, cancel := context.WithCancelCause(context.Background())
	t := &Term{
		claim: claim, timeout: timeout, backing: backing, ctx: ctx, cancel: cancel,
		deadline: confirmed.Add(timeout), changed: make(chan struct{}),
	}
	t.mu.Lock() // expire may run before AfterFunc returns
	t.expiry = time.AfterFunc(time.Until(t.deadline), t.expire)
	t.mu.Unlock()
	k := &Keeper{t}
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
	t.expireLocked() // the timer may be late if the process was paused
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
// the session timeout.
func (t *Term) Resign(ctx context.Context) error {
	t.lose(ErrResigned)
	t.release.Do(func() { t.released = t.backing.Release(ctx) })
	return t.released
}

// Supersede ends the term because a store has refused its token as stale. why is the refusal.
func (t *Term) Supersede(why error) { t.lose(fmt.Errorf("%w: %w", ErrSuperseded, why)) }

// Confirm records a round trip to the coordinator that proved the term. start is when the round
// trip began, because its reply may be old by the time it is read. A suspended term becomes active
// again. A term that is past its deadline stays lost: another leader may exist already.
func (k *Keeper) Confirm(start time.Time) {
	t := k.t
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expireLocked()
	if t.state == Lost {
		return
	}
	if next := start.Add(t.timeout); next.After(t.deadline) {
		t.deadline = next
		t.expiry.Reset(time.Until(next))
	}
	t.move(Active)
}

// Suspend records that the coordinator is out of reach.
func (k *Keeper) Suspend() {
	k.t.mu.Lock()
	defer k.t.mu.Unlock()
	if k.t.state == Active {
		k.t.move(Suspended)
	}
}

// Lose ends the term with one of ErrExpired, ErrDeposed or an error that wraps one. The first cause
// stays.
func (k *Keeper) Lose(cause error) { k.t.lose(cause) }

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
