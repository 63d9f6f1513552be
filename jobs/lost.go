package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// sayIfLost says that a handler was called whose result counts for nothing.
func (t *try) sayIfLost() {
	why := context.Cause(t.ctx)
	if !t.begun || t.ended || errors.Is(why, ErrStopping) || errors.Is(why, ErrCancelled) {
		return
	}
	t.s.Log.Warn("a job is not this worker's any more; it publishes nothing more of it",
		"job", string(t.id), "attempt", t.attempt)
}

// late is the error of a try that has run into its timeout.
func late(err error, after time.Duration) error {
	if err == ErrTimeout { // the handler says no more
		return fmt.Errorf("%w: %s", ErrTimeout, after.Round(time.Millisecond))
	}
	return fmt.Errorf("%w (%s): %w", ErrTimeout, after.Round(time.Millisecond), err)
}
