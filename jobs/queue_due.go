package jobs

import (
	"context"
	"time"
)

// Due reads how many waiting jobs have come to their time, and for how long the oldest of them has
// been due. It costs one list of names. Its errors are those of the coordinator.
func (q *Queue) Due(ctx context.Context) (count int, oldest time.Duration, err error) {
	names, err := q.docs.Names(ctx, q.paths.waiting())
	if err != nil {
		return 0, 0, err
	}
	now := q.now()
	for _, name := range names {
		if _, _, due, ok := parseEntry(name); ok && !due.After(now) {
			count++
			oldest = max(oldest, now.Sub(due))
		}
	}
	return count, oldest, nil
}
