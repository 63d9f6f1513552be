package campaign

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence"
)

func TestTheRetriesOfAllCallsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFrame(Settings{Timeout: timeout, Refused: func(error) bool { return false }})
		var tries atomic.Int64
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				_, err := Ask(t.Context(), f, "ask", func(context.Context) (any, error) {
					tries.Add(1)
					return nil, errCut
				})
				if !errors.Is(err, ErrUnreachable) {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if n := tries.Load(); n < 40 || n > 20+10+20*4 { // of 20 calls in 10 s, which take turns
			t.Errorf("%d tries", n)
		}
	})
}

func TestAWinnerWhoseSessionIsNotRenewedDoesNotHurryIt(t *testing.T) {
	run(t, func(t *testing.T, f *fake) {
		win(t, f, "orders")
		s := f.campaigns.Current()
		var before int
		f.set(func() { f.cut, before = true, f.asked })
		ctx, cancel := context.WithTimeout(t.Context(), 2*timeout)
		defer cancel()
		time.Sleep(timeout / 2)
		if _, err := s.Renewed(ctx); !errors.Is(err, fence.ErrExpired) {
			t.Error(err)
		}
		f.set(func() {
			if n := f.asked - before; n < 10 || n > 30 {
				t.Errorf("%d heartbeats in a session timeout without an answer", n)
			}
		})
	})
}
