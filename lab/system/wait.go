package system

import (
	"context"
	"errors"
	"time"
)

// Sleep waits for the time that a scenario's schedule demands, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Each does something to all targets at once, so that a majority is hit together.
func Each(targets []string, do func(string) error) error {
	errs := make(chan error)
	for _, p := range targets {
		go func() { errs <- do(p) }()
	}
	var all error
	for range targets {
		all = errors.Join(all, <-errs)
	}
	return all
}
