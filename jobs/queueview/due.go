package queueview

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/jobs/internal/records"
)

// Due reads how many waiting jobs have come to their time, and for how long the oldest of them has
// been due. It costs one list of names. Its errors are those of the coordinator.
func (v *View) Due(ctx context.Context) (count int, oldest time.Duration, err error) {
	names, err := v.store.Docs.Names(ctx, v.store.Paths.Waiting())
	if err != nil {
		return 0, 0, err
	}
	now := v.store.Now()
	for _, name := range names {
		if _, _, due, ok := records.ParseEntry(name); ok && !due.After(now) {
			count++
			oldest = max(oldest, now.Sub(due))
		}
	}
	return count, oldest, nil
}
