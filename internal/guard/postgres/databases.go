package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// databasesMost is how many databases are open at once, unless Options say otherwise.
	databasesMost = 20
	// unusedFor is how long a database stays open without a client, unless Options say otherwise. An
	// open database cannot be renamed, dropped or used as a template.
	unusedFor = 5 * time.Minute
	// openTime bounds the opening of a database.
	openTime = 10 * time.Second
	// nameMost is the longest name of a database or a role, in bytes (NAMEDATALEN - 1). The server cuts
	// off what a client sends beyond it.
	nameMost = 63
)

// databases are the open databases of the server. The home database is open for as long as the
// guard runs. Another one is opened for the first client that the server has let in, and closed when
// it has been unused for a while, or was dropped. There is never more than one of a name.
type databases struct {
	home    *database
	another func(name string) (*Database, error) // nil: there is only the home database
	most    int
	unused  time.Duration

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	all    map[string]*database // without the home database
	closed bool
}

func newDatabases(o Options) *databases {
	home := &database{
		Database: Database{Store: o.Store, Admission: o.Admission}, name: o.Store.Database(),
		opened: make(chan struct{}),
	}
	close(home.opened)
	home.listen()
	ctx, stop := context.WithCancel(context.Background())
	ds := &databases{
		home: home, another: o.Another, most: o.MaxDatabases, unused: o.DatabaseIdle,
		ctx: ctx, stop: stop, all: make(map[string]*database),
	}
	if ds.another != nil {
		ds.work.Go(func() { ds.closeUnused(ctx) })
	}
	return ds
}

// at returns the place of a client that asks for a database.
func (ds *databases) at(name string) *place {
	name = name[:min(len(name), nameMost)]
	if ds.another == nil {
		name = ds.home.name
	}
	return &place{all: ds, name: name}
}

// peek returns a database if it is open. It stays open until release, and counts as unused meanwhile.
func (ds *databases) peek(name string) (d *database, release func()) {
	if name == ds.home.name {
		return ds.home, func() {}
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d = ds.all[name]
	if d == nil || d.closing || !d.isOpen() {
		return nil, nil
	}
	d.users++
	return d, func() {
		ds.mu.Lock()
		defer ds.mu.Unlock()
		d.users--
	}
}

// use opens a database, or finds it open, and waits for that until ctx ends. The caller leaves it
// unless there is an error.
func (ds *databases) use(ctx context.Context, name string) (*database, error) {
	if name == ds.home.name {
		return ds.home, nil
	}
	for {
		d, busy, err := ds.join(name)
		if err != nil {
			return nil, err
		}
		if busy != nil { // it has to be closed first
			select {
			case <-busy.gone:
				continue
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		select {
		case <-d.opened:
		case <-ctx.Done():
			ds.leave(d)
			return nil, context.Cause(ctx)
		}
		if d.err != nil {
			ds.leave(d)
			return nil, d.err
		}
		return d, nil
	}
}

// join enters a user of a database, and begins to open it if it is not open. Otherwise it returns
// the database that is being closed, and that the caller has to wait for.
func (ds *databases) join(name string) (d, busy *database, err error) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.closed {
		return nil, nil, errors.New("the guard is shutting down")
	}
	d = ds.all[name]
	switch {
	case d != nil && d.closing:
		return nil, d, nil
	case d != nil && d.dropped.Load() && d.users == 0: // there may be another one of the name now
		d.closing = true
		ds.work.Go(func() { ds.close(d) })
		return nil, d, nil
	case d != nil:
		d.users++
		return d, nil, nil
	case len(ds.all)+1 >= ds.most:
		busy, err = ds.makeRoom()
		return nil, busy, err
	}
	d = &database{name: name, opened: make(chan struct{}), gone: make(chan struct{}), users: 1}
	ds.all[name] = d
	ds.work.Go(func() { ds.open(d) })
	return d, nil, nil
}

// makeRoom closes the database that has been unused for longest. The caller holds the mutex.
func (ds *databases) makeRoom() (oldest *database, err error) {
	for _, d := range ds.all {
		switch {
		case d.closing:
			return d, nil
		case d.users == 0 && d.isOpen() && (oldest == nil || d.left.Before(oldest.left)):
			oldest = d
		}
	}
	if oldest == nil {
		return nil, &loginError{
			code: tooManyConnections,
			what: fmt.Sprintf("the guard serves %d databases already", ds.most),
			why:  "all of them are in use; nothing was admitted and nothing was written",
			hint: "try again later, or raise GUARD_POSTGRES_MAX_DATABASES",
		}
	}
	oldest.closing = true
	ds.work.Go(func() { ds.close(oldest) })
	return oldest, nil
}

// open opens a database, if the store can be used. So what remains of a database without the schema
// is nothing.
func (ds *databases) open(d *database) {
	ctx, cancel := context.WithTimeout(ds.ctx, openTime)
	defer cancel()
	opened, err := ds.another(d.name)
	if err == nil {
		d.Database = *opened
		err = d.Store.Probe(ctx)
	}
	if err != nil {
		d.close()
		ds.mu.Lock()
		defer ds.mu.Unlock()
		d.err = err
		d.closing = true
		delete(ds.all, d.name)
		close(d.opened)
		close(d.gone)
		return
	}
	d.listen()
	close(d.opened)
}

// leave takes a user away.
func (ds *databases) leave(d *database) {
	if d == ds.home {
		return
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d.users--
	d.left = time.Now()
}

// closeUnused closes databases that have been unused for a while, until ctx ends.
func (ds *databases) closeUnused(ctx context.Context) {
	tick := time.NewTicker(max(ds.unused/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		ds.mu.Lock()
		for _, d := range ds.all {
			if d.users == 0 && d.isOpen() && !d.closing && (d.dropped.Load() || time.Since(d.left) > ds.unused) {
				d.closing = true
				ds.work.Go(func() { ds.close(d) })
			}
		}
		ds.mu.Unlock()
	}
}

// close closes a database that is closing.
func (ds *databases) close(d *database) {
	d.close()
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.all, d.name)
	close(d.gone)
}

// hold returns the open databases by name, the home database first. They stay open until release.
func (ds *databases) hold() (open []*database, release func()) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	open = []*database{ds.home}
	for _, d := range ds.all {
		if d.isOpen() && !d.closing {
			d.users++
			open = append(open, d)
		}
	}
	slices.SortFunc(open[1:], func(a, b *database) int { return strings.Compare(a.name, b.name) })
	return open, func() {
		ds.mu.Lock()
		defer ds.mu.Unlock()
		for _, d := range open[1:] {
			d.users-- // who only looks does not count as a client: left stays
		}
	}
}

// closeAll closes all databases. Nobody uses them any more.
func (ds *databases) closeAll() {
	ds.mu.Lock()
	ds.closed = true
	ds.mu.Unlock()
	ds.stop()
	ds.work.Wait()
	for _, d := range ds.all {
		d.close()
	}
	ds.home.close()
}
