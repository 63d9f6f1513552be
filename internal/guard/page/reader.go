package page

import (
	"context"
	"time"
)

const (
	readTime  = 10 * time.Second // bounds one read of the marks
	readPause = 2 * time.Second  // the shortest pause between two reads
	restFor   = 20               // a pause is at least so many times as long as the read before it
)

// keepReading reads the marks of a store while somebody looks at the page, until ctx ends.
func (p *Page) keepReading(ctx context.Context, s *store) {
	for {
		pause := readPause
		if p.streams.Open() > 0 {
			pause = max(pause, restFor*p.read(ctx, s))
		} else {
			select {
			case <-s.opened:
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

// read reads the marks of a store and returns how long that took.
func (p *Page) read(ctx context.Context, s *store) time.Duration {
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	marks, err := s.Marks(bounded)
	switch {
	case ctx.Err() != nil: // the guard stops
	case err != nil:
		p.failed(s, err)
	default:
		p.marks(s, marks)
	}
	return time.Since(start)
}
