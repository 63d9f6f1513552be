package fence

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Waits between two terms of Repeat.
const (
	firstWait = 250 * time.Millisecond
	maxWait   = 10 * time.Second
)

// Repeat is Run for term after term, until work is done: it returns nil once work has returned nil
// in a term that lasted. Between two terms it waits, 0.25 s at first and up to 10 s after terms
// that have ended sooner than that, and calls l.Again before.
//
// Repeat returns the cause of ctx once that ends. It also returns an error of the campaign, which
// an elector repeats by itself while that may help, and one that the next term would meet too
// (Permanent).
func (l Lead) Repeat(ctx context.Context, work func(ctx context.Context, t *Term) error) error {
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		term, err := l.campaign(ctx)
		if err != nil {
			return err
		}
		won := time.Now()
		err = l.run(ctx, term, work)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return errors.Join(context.Cause(ctx), unless(err, context.Cause(ctx)))
		case Permanent(err):
			return err
		case time.Since(won) >= maxWait:
			wait = firstWait
		}
		pause := wait/2 + rand.N(wait/2) // others may fail at the same store
		if l.Again != nil {
			l.Again(err, pause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// unless drops an error that only repeats the cause.
func unless(err, cause error) error {
	if errors.Is(err, cause) {
		return nil
	}
	return err
}
