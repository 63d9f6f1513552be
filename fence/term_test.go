package fence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

const timeout = 10 * time.Second

var orders = fence.Claim{Resource: "orders", Token: 33, Issuer: "test:1", Holder: "a"}

// backing counts the calls of a term to its coordinator.
type backing struct {
	mu              sync.Mutex
	acknowledged    int
	released        int
	failAcknowledge error
	failRelease     error
	log             func(string)
}

func (b *backing) Acknowledge(context.Context) error {
	return b.count(&b.acknowledged, "acknowledge", b.failAcknowledge)
}

func (b *backing) Release(context.Context) error {
	return b.count(&b.released, "release", b.failRelease)
}

func (b *backing) count(n *int, what string, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	*n++
	if b.log != nil {
		b.log(what)
	}
	return err
}

// wonNow makes a term whose winning round trip starts and ends now.
func wonNow() (*fence.Term, *elector.Keeper, *backing) {
	b := new(backing)
	term, keeper := elector.NewTerm(orders, time.Now(), timeout, b)
	return term, keeper, b
}

// wantLost checks state, context and cause at once.
func wantLost(t *testing.T, term *fence.Term, cause error) {
	t.Helper()
	if s := term.State(); s != fence.Lost {
		t.Errorf("state is %v; want lost", s)
	}
	if term.Context().Err() == nil {
		t.Error("the context of the lost term has not ended")
	}
	got := context.Cause(term.Context())
	if !errors.Is(got, cause) || !errors.Is(got, fence.ErrLost) {
		t.Errorf("cause is %v; want %v", got, cause)
	}
}

func wantState(t *testing.T, term *fence.Term, want fence.State) {
	t.Helper()
	if s := term.State(); s != want {
		t.Errorf("state is %v; want %v", s, want)
	}
}

func TestDeadlineCountsFromTheStartOfTheRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		time.Sleep(4 * time.Second) // the winning round trip was slow
		term, keeper := elector.NewTerm(orders, begin, timeout, new(backing))
		if d := term.Deadline().Sub(begin); d != timeout {
			t.Errorf("the deadline is %v after the start; want %v", d, timeout)
		}
		start := time.Now()
		time.Sleep(5 * time.Second) // so was the confirming one
		keeper.Confirm(start)
		if d := term.Deadline().Sub(start); d != timeout {
			t.Errorf("the deadline is %v after the start; want %v", d, timeout)
		}
		time.Sleep(time.Until(term.Deadline()) - time.Nanosecond)
		wantState(t, term, fence.Active)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		wantLost(t, term, fence.ErrExpired)
	})
}

func TestALateReplyCannotMoveTheDeadlineBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, keeper, _ := wonNow()
		early := time.Now()
		time.Sleep(3 * time.Second)
		late := time.Now()
		keeper.Confirm(late)
		keeper.Confirm(early) // overtaken on the way
		if d := term.Deadline(); !d.Equal(late.Add(timeout)) {
			t.Errorf("the deadline went back to %v before", late.Add(timeout).Sub(d))
		}
		_ = term.Resign(t.Context())
	})
}

func TestConfirmAfterTheDeadlineStaysLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, keeper, _ := wonNow()
		time.Sleep(timeout)
		keeper.Confirm(time.Now()) // races with the timer: both must find it lost
		wantLost(t, term, fence.ErrExpired)
		keeper.Confirm(time.Now())
		keeper.Suspend()
		wantLost(t, term, fence.ErrExpired)
	})
}

func TestEveryLookAfterTheDeadlineFindsTheTermLost(t *testing.T) {
	for name, look := range map[string]func(*fence.Term) bool{
		"State": func(term *fence.Term) bool { return term.State() == fence.Lost },
		"Watch": func(term *fence.Term) bool { s, _ := term.Watch(); return s == fence.Lost },
		"Wait": func(term *fence.Term) bool {
			return errors.Is(term.Wait(context.Background()), fence.ErrExpired)
		},
		"Acknowledge": func(term *fence.Term) bool {
			return errors.Is(term.Acknowledge(context.Background()), fence.ErrExpired)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				term, _, _ := wonNow()
				time.Sleep(timeout) // no synctest.Wait: the timer's own goroutine may not have run yet
				if !look(term) {
					t.Error("the term is alive after its deadline")
				}
			})
		})
	}
}

func TestATermWhoseTimeIsUpIsReturnedLost(t *testing.T) {
	for range 200 { // outside a bubble: the timer fires while NewTerm is still at work
		term, _ := elector.NewTerm(orders, time.Now().Add(-timeout), timeout, new(backing))
		wantLost(t, term, fence.ErrExpired)
	}
}

func TestSuspendedResumesAtTheNextConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, keeper, _ := wonNow()
		wantState(t, term, fence.Active)
		keeper.Suspend()
		keeper.Suspend()
		wantState(t, term, fence.Suspended)
		if term.Context().Err() != nil {
			t.Error("suspension ended the context")
		}
		time.Sleep(timeout - time.Second)
		keeper.Confirm(time.Now())
		wantState(t, term, fence.Active)
		if term.Token() != orders.Token || term.Claim() != orders {
			t.Errorf("the claim changed to %v", term.Claim())
		}
		keeper.Suspend()
		time.Sleep(timeout)
		wantLost(t, term, fence.ErrExpired)
	})
}

func TestWaitHoldsWorkWhileSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, keeper, _ := wonNow()
		if err := term.Wait(t.Context()); err != nil {
			t.Errorf("Wait on an active term: %v", err)
		}
		keeper.Suspend()
		waited := make(chan error)
		go func() { waited <- term.Wait(context.Background()) }()
		synctest.Wait()
		select {
		case err := <-waited:
			t.Fatalf("Wait on a suspended term returned %v", err)
		default:
		}
		keeper.Confirm(time.Now())
		if err := <-waited; err != nil {
			t.Errorf("Wait on a resumed term: %v", err)
		}

		keeper.Suspend()
		stop := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { waited <- term.Wait(ctx) }()
		synctest.Wait()
		cancel(stop)
		if err := <-waited; !errors.Is(err, stop) {
			t.Errorf("Wait whose context ended: %v", err)
		}

		go func() { waited <- term.Wait(context.Background()) }()
		// The bubble's clock advances to the deadline.
		if err := <-waited; !errors.Is(err, fence.ErrExpired) {
			t.Errorf("Wait on a term that expires: %v", err)
		}
	})
}

func TestWatchReportsEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, keeper, _ := wonNow()
		for _, step := range []struct {
			do   func()
			want fence.State
		}{
			{keeper.Suspend, fence.Suspended},
			{func() { keeper.Confirm(time.Now()) }, fence.Active},
			{func() { keeper.Lose(fence.ErrDeposed) }, fence.Lost},
		} {
			_, changed := term.Watch()
			step.do()
			select {
			case <-changed:
			default:
				t.Errorf("the watch did not report %v", step.want)
			}
			wantState(t, term, step.want)
		}
	})
}

func TestTheFirstCauseStays(t *testing.T) {
	why := fmt.Errorf("%w: mark is 34", fence.ErrStale)
	ends := map[error]func(*fence.Term, *elector.Keeper){
		fence.ErrDeposed:    func(_ *fence.Term, k *elector.Keeper) { k.Lose(fence.ErrDeposed) },
		fence.ErrExpired:    func(_ *fence.Term, k *elector.Keeper) { k.Lose(fence.ErrExpired) },
		fence.ErrSuperseded: func(term *fence.Term, _ *elector.Keeper) { term.Supersede(why) },
		fence.ErrResigned: func(term *fence.Term, _ *elector.Keeper) {
			_ = term.Resign(context.Background())
		},
	}
	for first, end := range ends {
		t.Run(first.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				term, keeper, _ := wonNow()
				end(term, keeper)
				for _, later := range ends {
					later(term, keeper)
				}
				wantLost(t, term, first)
				for other := range ends {
					if other != first && errors.Is(context.Cause(term.Context()), other) {
						t.Errorf("the cause %v matches %v too", first, other)
					}
				}
			})
		})
	}
}

func TestResignReleasesOnce(t *testing.T) {
	for _, fail := range []error{nil, errors.New("out of reach")} {
		synctest.Test(t, func(t *testing.T) {
			term, _, b := wonNow()
			b.failRelease = fail
			for range 3 {
				if err := term.Resign(t.Context()); !errors.Is(err, fail) {
					t.Errorf("Resign = %v; want %v", err, fail)
				}
			}
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() { _ = term.Resign(t.Context()) })
			}
			all.Wait()
			if b.released != 1 {
				t.Errorf("released %d times", b.released)
			}
			wantLost(t, term, fence.ErrResigned)
		})
	}
}

// stuck is a coordinator that does not answer.
type stuck struct{}

func (stuck) Acknowledge(context.Context) error { return nil }
func (stuck) Release(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }

func TestEachResignReturnsAtItsOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, _ := elector.NewTerm(fence.Claim{Resource: "orders", Token: 1}, time.Now(), time.Minute,
			stuck{})
		start := time.Now()
		resign := func(limit time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := term.Resign(ctx)
			if took := time.Since(start); took != limit || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("with %v, Resign took %v: %v", limit, took, err)
			}
		}
		var first sync.WaitGroup
		first.Go(func() { resign(3 * time.Second) })
		synctest.Wait()
		resign(100 * time.Millisecond)
		first.Wait()
	})
}

func TestResignOfALostTermStillReleasesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, keeper, b := wonNow()
		keeper.Lose(fence.ErrDeposed)
		if b.released != 0 {
			t.Error("a loss released by itself: the holder may still be draining")
		}
		if err := term.Resign(t.Context()); err != nil || b.released != 1 {
			t.Errorf("Resign = %v, released %d times", err, b.released)
		}
		wantLost(t, term, fence.ErrDeposed)
	})
}

func TestSupersedeWrapsTheStoresAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, _, _ := wonNow()
		why := &fence.Refusal{Reason: fence.ErrStale, Mark: 34, Message: "token 33 is stale"}
		term.Supersede(fmt.Errorf("store 2: %w", why))
		wantLost(t, term, fence.ErrSuperseded)
		cause := context.Cause(term.Context())
		if !errors.Is(cause, fence.ErrStale) {
			t.Errorf("the reason is missing in %v", cause)
		}
		if r, ok := errors.AsType[*fence.Refusal](cause); !ok || r.Mark != 34 {
			t.Errorf("the refusal is missing in %v", cause)
		}
	})
}

func TestAcknowledgeAsksTheCoordinatorWhileTheTermLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term, keeper, b := wonNow()
		if err := term.Acknowledge(t.Context()); err != nil || b.acknowledged != 1 {
			t.Errorf("Acknowledge = %v, called %d times", err, b.acknowledged)
		}
		b.failAcknowledge = errors.New("gone")
		if err := term.Acknowledge(t.Context()); !errors.Is(err, b.failAcknowledge) {
			t.Errorf("Acknowledge = %v", err)
		}
		keeper.Lose(fence.ErrDeposed)
		if err := term.Acknowledge(t.Context()); !errors.Is(err, fence.ErrDeposed) ||
			b.acknowledged != 2 {
			t.Errorf("Acknowledge of a lost term = %v, called %d times", err, b.acknowledged)
		}
	})
}
