package databases

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
)

// openTime bounds the opening of a database.
const openTime = 10 * time.Second

// Options of a Set.
type Options struct {
	Home Database // always open
	// Another opens another database of the server, without dialing. If it is nil, there is only the
	// home database.
	Another func(name string) (*Database, error)
	// Max is how many databases are open at once; 20 when zero.
	Max int
	// Idle is how long another database stays open without a client; 5 min when zero. An open database
	// cannot be renamed, dropped or used as a template.
	Idle time.Duration
}

// Set holds the open databases of a server.
type Set struct {
	o    Options
	home *Opened

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	others map[string]*Opened
	closed bool
}

// New returns a Set with the home database. It listens there for raises by other processes.
func New(o Options) *Set {
	o.Max, o.Idle = cmp.Or(o.Max, 20), cmp.Or(o.Idle, 5*time.Minute)
	s := &Set{o: o, others: make(map[string]*Opened)}
	s.home = &Opened{Database: o.Home, Name: o.Home.Store.Database()}
	s.home.listen()
	s.ctx, s.stop = context.WithCancel(context.Background())
	if o.Another != nil {
		s.work.Go(s.closeUnused)
	}
	return s
}

// Home returns the name of the home database.
func (s *Set) Home() string { return s.home.Name }

// At returns the place of a client that asks for a database.
func (s *Set) At(name string) *Selected {
	name = name[:min(len(name), wire.MaxName)]
	if s.o.Another == nil {
		name = s.home.Name
	}
	return &Selected{set: s, Name: name}
}

// use opens a database, or finds it open, and waits for that until ctx ends. The caller leaves it
// unless there is an error.
func (s *Set) use(ctx context.Context, name string) (*Opened, error) {
	if name == s.home.Name {
		return s.home, nil
	}
	for {
		d, until, err := s.join(name)
		if err != nil {
			return nil, err
		}
		select {
		case <-until:
		case <-ctx.Done():
			if d != nil {
				s.leave(d)
			}
			return nil, context.Cause(ctx)
		}
		switch {
		case d == nil:
			continue
		case d.err != nil:
			s.leave(d)
			return nil, d.err
		}
		return d, nil
	}
}

// join enters a user of a database, and begins to open it if it is not open. It returns no database
// if one has to be closed first, its own or another. The caller waits for until.
func (s *Set) join(name string) (d *Opened, until <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errors.New("the guard is shutting down")
	}
	d = s.others[name]
	switch {
	case d != nil && d.closing:
		return nil, d.gone, nil
	case d != nil && d.dropped.Load() && d.users == 0: // there may be another one of the name now
		s.close(d)
		return nil, d.gone, nil
	case d != nil:
		d.users++
		return d, d.opened, nil
	case len(s.others)+1 >= s.o.Max:
		until, err = s.makeRoom()
		return nil, until, err
	}
	d = &Opened{Name: name, opened: make(chan struct{}), gone: make(chan struct{}), users: 1}
	s.others[name] = d
	s.work.Go(func() { s.open(d) })
	return d, d.opened, nil
}

// makeRoom closes the database that has been unused for longest. The caller holds the mutex, and
// waits for until.
func (s *Set) makeRoom() (until <-chan struct{}, err error) {
	var oldest *Opened
	for _, d := range s.others {
		switch {
		case d.closing:
			return d.gone, nil
		case d.users == 0 && d.ready && (oldest == nil || d.left.Before(oldest.left)):
			oldest = d
		}
	}
	if oldest == nil {
		return nil, &wire.Error{
			Code:    wire.TooManyConnections,
			Message: fmt.Sprintf("the guard serves %d databases already", s.o.Max),
			Detail:  "all of them are in use; nothing was admitted and nothing was written",
			Hint:    "try again later, or raise GUARD_POSTGRES_MAX_DATABASES",
		}
	}
	s.close(oldest)
	return oldest.gone, nil
}

// open opens a database, if the store can be used. So what remains of a database without the schema
// is nothing.
func (s *Set) open(d *Opened) {
	ctx, cancel := context.WithTimeout(s.ctx, openTime)
	defer cancel()
	opened, err := s.o.Another(d.Name)
	if err == nil {
		d.Database = *opened
		err = d.Store.Probe(ctx)
	}
	if err == nil {
		d.listen()
	} else {
		d.close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.ready, d.err = err == nil, err
	close(d.opened)
	if err != nil {
		d.closing = true
		s.forget(d)
	}
}

// forget lets a database be opened again. The caller holds the mutex.
func (s *Set) forget(d *Opened) {
	delete(s.others, d.Name)
	close(d.gone)
}

// close begins to close a database. The caller holds the mutex.
func (s *Set) close(d *Opened) {
	d.closing = true
	s.work.Go(func() {
		d.close()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forget(d)
	})
}

// leave takes a user away.
func (s *Set) leave(d *Opened) {
	if d == s.home {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.users--
	d.left = time.Now()
}

// closeUnused closes databases that have been unused for a while, until the Set is closed.
func (s *Set) closeUnused() {
	tick := time.NewTicker(max(s.o.Idle/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		for _, d := range s.others {
			if d.users == 0 && d.ready && !d.closing && (d.dropped.Load() || time.Since(d.left) > s.o.Idle) {
				s.close(d)
			}
		}
		s.mu.Unlock()
	}
}

// Hold returns the open databases with some names, or all, the home database first. They stay open
// until release. That counts as no client: a database without one may be closed after the release.
func (s *Set) Hold(names ...string) (open []*Opened, release func()) {
	which := func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	s.mu.Lock()
	defer s.mu.Unlock()
	var others []*Opened
	for _, d := range s.others {
		if d.ready && !d.closing && which(d.Name) {
			d.users++
			others = append(others, d)
		}
	}
	slices.SortFunc(others, func(a, b *Opened) int { return strings.Compare(a.Name, b.Name) })
	if which(s.home.Name) {
		open = append(open, s.home)
	}
	return append(open, others...), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, d := range others {
			d.users--
		}
	}
}

// Close closes all databases. Nobody uses them any more.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.work.Wait()
	for _, d := range s.others {
		d.close()
	}
	s.home.close()
}
