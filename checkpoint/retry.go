package checkpoint

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Retry is an author's policy for the errors of a step. What fails for the journal's sake
// (connections, serialization failures, waiting for an older leader's end) is tried again for as
// long as the term lasts and counts for nothing here. A stale token is never tried again. The zero
// value runs a step once.
type Retry struct {
	Attempts int // the most, the first one included; 1 when zero
	// the wait after the failed-th failure; Exponential(1s, 1min) when nil
	Backoff func(failed int) time.Duration
	// whether to try again after this error; when nil all but a panic
	If func(err error) bool
}

// Exponential doubles the wait from first up to most, each time a random part of it shorter, so
// that many do not come back at once.
func Exponential(first, most time.Duration) func(failed int) time.Duration {
	return func(failed int) time.Duration {
		d := most
		if failed < 63 && first < most>>(failed-1) {
			d = first << (failed - 1)
		}
		return d/2 + rand.N(d/2+1)
	}
}

// again tells whether to try again after so many failures, and when.
func (r Retry) again(failed int, err error) (time.Duration, bool) {
	may := r.If
	if may == nil {
		may = func(err error) bool { return !errors.As(err, new(*PanicError)) }
	}
	if failed >= max(r.Attempts, 1) || errors.Is(err, ErrTooLarge) || !may(err) {
		return 0, false
	}
	backoff := r.Backoff
	if backoff == nil {
		backoff = Exponential(time.Second, time.Minute)
	}
	return backoff(failed), true
}

// journalBackoff spaces what is tried again for the journal's sake.
var journalBackoff = Exponential(5*time.Millisecond, time.Second)

// pause waits, at most until ctx ends, whose cause it then returns.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
