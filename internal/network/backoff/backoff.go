// Package backoff spaces retries.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Bounds for callers that retry for as long as it takes.
const (
	Min = 50 * time.Millisecond
	Max = 5 * time.Second
)

// After returns the wait before the nth retry, counted from 1. It doubles from least to most, with
// jitter so that clients do not retry in step.
func After(n int, least, most time.Duration) time.Duration {
	d := most
	if n < 16 {
		d = min(least<<(n-1), most)
	}
	return d/2 + rand.N(d/2+1)
}

// Pause waits, but no longer than ctx lasts.
func Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
