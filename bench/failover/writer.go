package failover

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"
)

const (
	patience = time.Second     // of one write
	calm     = 2 * time.Second // before the event
)

// writer writes numbers, one by one.
type writer struct {
	way   string
	pause time.Duration // between two writes
	older bool          // it is refused sooner or later
	one   func(ctx context.Context, n int) error

	acknowledged []int
	outage       time.Duration // the longest time between two acknowledgements
	last         time.Time
	failed       error // of the last write
}

// run writes until ctx ends.
func (w *writer) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		if w.failed = w.try(ctx, n); w.failed == nil {
			now := time.Now()
			if !w.last.IsZero() {
				w.outage = max(w.outage, now.Sub(w.last))
			}
			w.last = now
			w.acknowledged = append(w.acknowledged, n)
		}
		select {
		case <-time.After(w.pause):
		case <-ctx.Done():
		}
	}
}

func (w *writer) try(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return w.one(ctx, n)
}

// during lets all write, calls event in between, and ends them some time after it.
func during(
	ctx context.Context, all []*writer, event func() error, afterward time.Duration,
) error {
	writing, stop := context.WithCancel(ctx)
	var busy sync.WaitGroup
	for _, w := range all {
		busy.Go(func() { w.run(writing) })
	}
	err := wait(ctx, calm)
	if err == nil {
		err = event()
	}
	if err == nil {
		err = wait(ctx, afterward)
	}
	stop()
	busy.Wait()
	for _, w := range all {
		if err == nil && !w.older && time.Since(w.last) > 2*patience {
			err = fmt.Errorf("%s: nothing is acknowledged any more: %w", w.way, w.failed)
		}
	}
	return err
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// missing returns how many of the acknowledged numbers are not among those that were kept.
func (w *writer) missing(kept []string) (n int) {
	there := make(map[string]bool)
	for _, text := range kept {
		there[text] = true
	}
	for _, a := range w.acknowledged {
		if !there[strconv.Itoa(a)] {
			n++
		}
	}
	return n
}
