package page

import (
	"context"
	"errors"
	"time"
)

const (
	readTime  = 10 * time.Second // bounds one read of the marks, and the pause after one that failed
	readPause = 2 * time.Second  // the shortest pause between two reads
	// a pause is at least so many times as long as the shorter one of the last two reads
	restFor = 20
)

// keepReading calls read again and again while somebody looks at the page, until ctx ends. opened
// holds a value after somebody has begun to look. One slow read does not bring a long pause: the
// store or the coordinator may have stood still for a while, and the page would go on showing who
// led then.
func (p *Page) keepReading(
	ctx context.Context, opened <-chan struct{}, read func(context.Context) error,
) {
	var before time.Duration
	for {
		pause := readPause
		if p.streams.Open() > 0 {
			start := time.Now()
			bounded, cancel := context.WithTimeout(ctx, readTime)
			err := read(bounded)
			cancel()
			took := time.Since(start)
			if pause = max(pause, restFor*min(took, before)); err != nil {
				pause, took = readTime, 0
			}
			before = took
		} else {
			select {
			case <-opened:
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

// read reads the marks of a store.
func (p *Page) read(ctx context.Context, s *store) error {
	note := ""
	marks, err := s.Marks(ctx)
	if err == nil && s.Note != nil {
		note, err = s.Note(ctx)
	}
	switch {
	case errors.Is(context.Cause(ctx), context.Canceled): // the guard stops
	case err != nil:
		p.failed(s, err)
	default:
		p.marks(s, marks, note)
	}
	return err
}
