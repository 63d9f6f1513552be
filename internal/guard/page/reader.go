package page

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/internal/webpage"
)

const (
	readTime  = 10 * time.Second // bounds one read of the marks
	readPause = 2 * time.Second  // the shortest pause between two reads
	restFor   = 20               // a pause is at least so many times as long as the read before it
)

// reader reads the marks of one store while somebody looks at the page.
type reader struct {
	store  *store
	board  *board
	opened chan struct{} // holds a value after a stream has begun
	stop   context.CancelFunc
}

// run runs until ctx ends.
func (r *reader) run(ctx context.Context, watching *webpage.Streams) {
	for {
		pause := readPause
		if watching.Open() > 0 {
			pause = max(pause, restFor*r.read(ctx))
		} else {
			select {
			case <-r.opened:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// read reads the marks and returns how long that took.
func (r *reader) read(ctx context.Context) time.Duration {
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	marks, err := r.store.Marks(bounded)
	switch {
	case ctx.Err() != nil: // the guard stops
	case err != nil:
		r.board.failed(r.store, err)
	default:
		r.board.marks(r.store, marks)
	}
	return time.Since(start)
}

// wake tells the reader that a stream has begun.
func (r *reader) wake() {
	select {
	case r.opened <- struct{}{}:
	default:
	}
}
