package inject

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/lab/record"
)

// Supervise restarts workers that have ended by themselves.
func (r *Injector) Supervise(ctx context.Context) {
	handled := map[string]int{}
	for {
		var again []string
		changed := r.rec.Look(func(s *record.Seen) {
			for w, n := range s.Ended {
				if n > handled[w] {
					again = append(again, w)
				}
				handled[w] = n
			}
		})
		for _, w := range again {
			if err := r.startAgain(ctx, w); err != nil && ctx.Err() == nil {
				r.rec.Note("lab", fmt.Sprintf("%s could not be started again: %v", w, err))
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// startAgain leaves out a worker that a fault has killed: the end of the fault starts it. A fault
// that begins meanwhile waits, and then kills the worker that was started: otherwise the fault
// would find it running at its end, and fail.
func (r *Injector) startAgain(ctx context.Context, w string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down[w] {
		return nil
	}
	return r.sys.Start(ctx, w)
}

func (r *Injector) setDown(w string, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down[w] = down
}
