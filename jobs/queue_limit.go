package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// ErrFull: as many jobs of the group wait as may, or they have too many bytes. Nothing was
// submitted.
var ErrFull = errors.New("too many jobs of the group wait")

// Limits of what waits. A job that is tried again or repeats is not refused, nor is a clean-up.
const (
	MaxWaiting = 15_000
	// MaxWaitingBytes is how many bytes the jobs have together, as they were submitted. A coordinator
	// has all of them in its memory.
	MaxWaitingBytes = 16 << 20
)

// backlog is what waited when somebody looked, and what was submitted here since. One look serves
// the submissions of a second, so processes that submit at once get a few more in.
type backlog struct {
	mu          sync.Mutex
	seen        time.Time
	jobs, bytes int
}

const backlogSeen = time.Second

// room returns ErrFull if the group has no room for more jobs.
func (q *Queue) room(ctx context.Context, specs ...job.Spec) error {
	if err := q.look(ctx); err != nil {
		return err
	}
	b := &q.backlog
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.jobs+len(specs) <= MaxWaiting && b.bytes+encodedBytes(specs) <= MaxWaitingBytes {
		return nil
	}
	return fmt.Errorf("%w: %d with %d bytes, and at most %d with %d bytes may; submit it again when "+
		"some have run",
		ErrFull, b.jobs, b.bytes, MaxWaiting, MaxWaitingBytes)
}

// add counts jobs that were submitted.
func (b *backlog) add(specs ...job.Spec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.jobs, b.bytes = b.jobs+len(specs), b.bytes+encodedBytes(specs)
}

func encodedBytes(specs []job.Spec) (sum int) {
	for _, s := range specs {
		sum += len(records.Encode(s))
	}
	return sum
}

// look reads what waits, unless somebody has done so just now.
func (q *Queue) look(ctx context.Context) error {
	b := &q.backlog
	b.mu.Lock()
	fresh := !b.seen.IsZero() && time.Since(b.seen) < backlogSeen
	b.mu.Unlock()
	if fresh {
		return nil
	}
	names, err := q.store.Docs.Names(ctx, q.store.Paths.Waiting())
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen, b.jobs, b.bytes = time.Now(), len(names), waitingBytes(names)
	return nil
}

func waitingBytes(names []string) (sum int) {
	for _, name := range names {
		_, bytes, _, _ := records.ParseEntry(name)
		sum += bytes
	}
	return sum
}
