package ensemble

import (
	"context"
	"math/rand/v2"
	"time"
)

// The bounds of Backoff for whoever tries again for as long as it takes.
const (
	BackoffLeast = 50 * time.Millisecond
	BackoffMost  = 5 * time.Second
)

// Backoff doubles from least to most, with jitter so that clients do not come back in step. n counts from 1.
func Backoff(n int, least, most time.Duration) time.Duration {
	d := most
	if n < 16 {
		d = min(least<<(n-1), most)
	}
	return d/2 + rand.N(d/2+1)
}

// Pause returns early when ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
