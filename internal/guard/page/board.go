package page

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
)

// board holds what the page shows.
type board struct {
	guard   string
	started time.Time

	mu      sync.Mutex
	changed chan struct{} // closed by the next change; nil while nobody waits for one
	stores  []*store
}

// store is what the page knows of one store.
type store struct {
	guard.Source
	err       string    // why the marks could not be read last
	read      time.Time // when they were read last; zero if never
	marks     int       // in the store, when they were read
	sessions  int       // of all guards, when they were read
	resources resources
}

func (b *board) add(s *store) {
	b.change(func() bool {
		b.stores = append(b.stores, s)
		return true
	})
}

func (b *board) remove(s *store) {
	b.change(func() bool {
		b.stores = slices.DeleteFunc(b.stores, func(other *store) bool { return other == s })
		return true
	})
}

// shown returns the stores that the page shows.
func (b *board) shown() []*store {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.stores)
}

// change runs do, and wakes the streams if it has changed anything.
func (b *board) change(do func() bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if do() && b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// next returns a channel that the next change closes.
func (b *board) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.changed == nil {
		b.changed = make(chan struct{})
	}
	return b.changed
}

// event enters one event of a store.
func (b *board) event(s *store, e marks.Event) {
	now := time.Now()
	switch e.Kind {
	case marks.Raised:
		b.change(func() bool { return s.resources.raised(e.Claim, now) })
	case marks.Opened, marks.Closed, marks.Refused:
		b.change(func() bool { return true }) // state reads them
	}
}

// failed enters that the marks of a store could not be read.
func (b *board) failed(s *store, err error) {
	b.change(func() bool {
		before := s.err
		s.err = short(err.Error())
		return s.err != before
	})
}

// marks enters all marks of a store. There may be very many, and events must not wait, so the long
// work is done without the lock.
func (b *board) marks(s *store, all []marks.Mark) {
	now := time.Now()
	b.mu.Lock()
	known := s.resources.names()
	b.mu.Unlock()
	sessions := 0
	for _, m := range all {
		sessions += m.Sessions
	}
	some := worthShowing(all, known)
	b.change(func() bool {
		same := s.err == "" && !s.read.IsZero() && s.marks == len(all) && s.sessions == sessions
		s.err, s.read, s.marks, s.sessions = "", now, len(all), sessions
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
