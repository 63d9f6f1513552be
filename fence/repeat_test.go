package fence_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/fencetest"
)

// refusing is a store that refuses each raise.
type refusing struct {
	err    error
	raises int
}

func (r *refusing) Raise(context.Context, fence.Claim) error { r.raises++; return r.err }

func TestRepeatWaitsLongerAfterTermsThatFailAtOnceAndEndsAtAFinalCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		coordinator := fencetest.NewMemory(10 * time.Second).Open()
		defer coordinator.Close()
		store := &refusing{err: errors.New("no answer")}
		lead := fence.Lead{Elector: coordinator, Resource: "orders", Stores: []fence.Raiser{store}}
		work := func(context.Context, *fence.Term) error { return nil }

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		told := 0
		lead.Again = func(error, time.Duration) { told++ }
		err := lead.Repeat(ctx, work)
		if !errors.Is(err, context.DeadlineExceeded) || store.raises < 6 || store.raises > 20 ||
			told > store.raises {
			t.Errorf("%d terms in a minute, told of %d: %v", store.raises, told, err)
		}
		for _, final := range []error{
			&fence.SetupError{What: "no right"}, &fence.Refusal{Reason: fence.ErrOtherIssuer},
		} {
			*store = refusing{err: final}
			if err := lead.Repeat(t.Context(), work); !errors.Is(err, final) || store.raises != 1 {
				t.Errorf("%d terms: %v", store.raises, err)
			}
		}
		*store = refusing{err: &fence.SetupError{What: "a standby", Passes: true}}
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := lead.Repeat(ctx, work); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestRepeatEndsWhenTheWorkIsDoneInATermThatLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		coordinator := fencetest.NewMemory(10 * time.Second).Open()
		defer coordinator.Close()
		terms := 0
		err := fence.Lead{Elector: coordinator, Resource: "orders"}.Repeat(t.Context(),
			func(ctx context.Context, term *fence.Term) error {
				if terms++; terms < 3 {
					term.Supersede(errors.New("a newer leader"))
				}
				return nil
			})
		if err != nil || terms != 3 {
			t.Errorf("%d terms: %v", terms, err)
		}
	})
}
