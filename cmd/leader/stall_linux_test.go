package main

import (
	"sync"
	"testing"
	"time"
)

// stalls measures how long this process was not scheduled, as on a shared machine.
type stalls struct {
	mu   sync.Mutex
	seen time.Time
	most time.Duration
}

// watchStalls measures until the test ends.
func watchStalls(t *testing.T) *stalls {
	t.Helper()
	s := &stalls{seen: time.Now()}
	ctx := t.Context()
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.longest()
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(done.Wait) // the context has ended by then
	return s
}

// longest is the longest stall until now.
func (s *stalls) longest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.most = max(s.most, now.Sub(s.seen))
	s.seen = now
	return s.most
}
