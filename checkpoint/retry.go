package checkpoint

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Retry is the policy for a step that fails. The zero value runs a step once. Errors of the journal
// (connections, serialization failures, older sessions that have not ended) are retried as long as
// the term lasts and use up no attempts. An error that refuses the term's own
// token as stale ends the term and is not retried.
type Retry struct {
	// Attempts is the maximum, including the first one; 1 when zero.
	Attempts int
	// Backoff returns the wait after so many failures; Exponential(1s, 1min) when nil.
	Backoff func(failed int) time.Duration
	// If reports whether to try again after err; when nil, after every error but a panic.
	If func(err error) bool
}

// Exponential doubles the wait from first up to most. Each wait is shortened by a random part, at
// most half, so that many processes do not retry at once.
func Exponential(first, most time.Duration) func(failed int) time.Duration {
	return func(failed int) time.Duration {
		d := most
		if failed < 63 && first < most>>(failed-1) {
			d = first << (failed - 1)
		}
		return d/2 + rand.N(d/2+1)
	}
}

// again reports whether to try again after so many failures, and when.
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

// journalBackoff is the wait between retries after errors of the journal.
var journalBackoff = Exponential(5*time.Millisecond, time.Second)

// pause waits for d, or until ctx ends and then returns its cause.
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
