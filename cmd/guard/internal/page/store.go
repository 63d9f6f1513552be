package page

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

// store is what the page knows of one store.
type store struct {
	guard.Source
	opened chan struct{}      // holds a value after a stream has begun
	stop   context.CancelFunc // ends the reading; nil before Run

	err       string    // why the marks could not be read last
	note      string    // what is unusual about the store
	read      time.Time // when they were read last; zero if never
	marks     int       // in the store, when they were read
	sessions  int       // of all guards, when they were read
	resources resources
}

// change runs do, and wakes the streams if it has changed anything.
func (p *Page) change(do func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if do() && p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// next returns a channel that the next change closes.
func (p *Page) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// event enters one event of a store.
func (p *Page) event(s *store, e marks.Event) {
	now := time.Now()
	switch e.Kind {
	case marks.Raised, marks.Restored:
		p.change(func() bool { return s.resources.raised(e.Claim, now) })
	case marks.Opened, marks.Closed, marks.Refused:
		p.change(func() bool { return true }) // state reads them
	}
}

// failed enters that the marks of a store could not be read.
func (p *Page) failed(s *store, err error) {
	p.change(func() bool {
		before := s.err
		s.err = short(err.Error())
		return s.err != before
	})
}

// marks enters all marks of a store, and what is unusual about it. There may be very many, and
// events must not wait, so the long work is done without the lock.
func (p *Page) marks(s *store, all []marks.Mark, note string) {
	now := time.Now()
	p.mu.Lock()
	known := s.resources.names()
	p.mu.Unlock()
	sessions := 0
	for _, m := range all {
		sessions += m.Sessions
	}
	some := worthShowing(all, known)
	p.change(func() bool {
		same := s.err == "" && s.note == note && !s.read.IsZero() && s.marks == len(all) &&
			s.sessions == sessions
		s.err, s.note, s.read, s.marks, s.sessions = "", note, now, len(all), sessions
		return s.resources.read(some) || !same
	})
}

// maxName is how many bytes of a name or text the page keeps.
const maxName = 160

// short returns the beginning of a text that comes from a client or a server.
func short(text string) string {
	if len(text) > maxName {
		text = text[:maxName] + "…"
	}
	return strings.Clone(strings.ToValidUTF8(text, "?"))
}

// latest sorts by time, the latest first, and returns at most so many.
func latest[T any](all []T, max int, at func(T) time.Time, name func(T) string) []T {
	slices.SortFunc(all, func(a, b T) int {
		return cmp.Or(at(b).Compare(at(a)), cmp.Compare(name(a), name(b)))
	})
	return all[:min(len(all), max)]
}
