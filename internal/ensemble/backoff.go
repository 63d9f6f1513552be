package ensemble

import (
	"context"
	"math/rand/v2"
	"time"
)

// Bounds of Backoff for callers that retry for as long as it takes.
const (
	BackoffLeast = 50 * time.Millisecond
	BackoffMost  = 5 * time.Second
)

// Backoff returns the wait before the nth retry, counted from 1. It doubles from least to most,
// with jitter so that clients do not retry in step.
func Backoff(n int, least, most time.Duration) time.Duration {
	d := most
	if n < 16 {
		d = min(least<<(n-1), most)
	}
	return d/2 + rand.N(d/2+1)
}

// Pause waits for the duration, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
