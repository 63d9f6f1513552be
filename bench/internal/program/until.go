package program

import (
	"context"
	"time"
)

// Until calls holds again and again until it returns true or an error, or ctx ends.
func Until(ctx context.Context, every time.Duration, holds func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if done, err := holds(); done || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
