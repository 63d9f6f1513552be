package marks

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A crowd that comes during a call shares the next one, which begins after all of them have come.
func TestACrowdSharesOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const crowd = 1000
		var calls []int
		gather := func(ctx context.Context, items []int) (int, error) {
			calls = append(calls, len(items)) // a race, if two calls are under way at once
			time.Sleep(time.Second)
			return len(calls), nil
		}
		var all together[int, int]
		results := make(chan int, 1+crowd)
		ask := func(i int) {
			n, err := all.do(t.Context(), i, gather)
			if err != nil {
				t.Error(err)
			}
			results <- n
		}
		go ask(0)
		synctest.Wait()
		for i := range crowd {
			go ask(1 + i)
		}
		if n := <-results; n != 1 {
			t.Errorf("the first got the result of call %d", n)
		}
		for range crowd {
			if n := <-results; n != 2 {
				t.Fatalf("one of the crowd got the result of call %d", n)
			}
		}
		if len(calls) != 2 || calls[0] != 1 || calls[1] != crowd {
			t.Errorf("calls for %v items", calls)
		}
	})
}

// The first of a crowd makes the call. The others do not depend on its patience.
func TestACrowdDoesNotLoseItsCallWithTheFirstOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := func(ctx context.Context, items []int) (int, error) {
			select {
			case <-time.After(time.Minute):
				return len(items), nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		var all together[int, int]
		short, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		failed := make(chan error, 2)
		for i, ctx := range []context.Context{t.Context(), short, t.Context()} {
			go func() {
				_, err := all.do(ctx, i, answer)
				failed <- err
			}()
			synctest.Wait()
		}
		want := []error{nil, context.DeadlineExceeded, nil} // of the first call, the second, the third
		for i := range want {
			if err := <-failed; !errors.Is(err, want[i]) {
				t.Errorf("%v, want %v", err, want[i])
			}
		}
	})
}
