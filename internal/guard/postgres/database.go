package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	pgstore "github.com/ringfence/ringfence/internal/marks/postgres"
)

// Database is one database of the server, with what a guard needs to serve it.
type Database struct {
	Store     *pgstore.Store
	Admission *marks.Admission
	Closing   func() // called before the Store is closed; may be nil
}

// database is a Database that is open, or that is being opened or closed.
type database struct {
	Database
	name   string
	opened chan struct{} // closed when it is open, or when err says why not
	err    error
	gone   chan struct{} // closed when it is closed, so that it can be opened again

	stop      context.CancelFunc
	listening sync.WaitGroup
	dropped   atomic.Bool // the server has no such database any more

	// The mutex of databases guards these.
	users   int       // logins and sessions
	left    time.Time // when the last of them left
	closing bool
}

// listen ends sessions of this process that other processes have overtaken, until close.
func (d *database) listen() {
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.listening.Go(func() {
		d.Store.Listen(ctx, func(r fence.Resource) { d.Admission.Overtaken(ctx, r) })
		d.dropped.Store(ctx.Err() == nil)
	})
}

// close closes the store, if it was opened.
func (d *database) close() {
	if d.Store == nil {
		return
	}
	if d.stop != nil {
		d.stop()
		d.listening.Wait()
	}
	if d.Closing != nil {
		d.Closing()
	}
	d.Store.Close()
}

// isOpen reports whether the database can be used at once.
func (d *database) isOpen() bool {
	select {
	case <-d.opened:
		return d.err == nil
	default:
		return false
	}
}

// place is the database that a client asks for. Once it is open for the client, it stays open until
// the client leaves.
type place struct {
	all  *databases
	name string
	db   *database // nil until open
}

// open opens the database for a client that has logged in.
func (at *place) open(ctx context.Context) error {
	d, err := at.all.use(ctx, at.name)
	at.db = d
	return err
}

// leave lets the database be closed. It may be called twice.
func (at *place) leave() {
	if at.db != nil {
		at.all.leave(at.db)
		at.db = nil
	}
}

// ask calls f with the database if it is open, and reports whether it is. A client that has not
// logged in opens no database, and keeps none open for longer than f takes.
func (at *place) ask(f func(d *database) error) (open bool, err error) {
	d, release := at.all.peek(at.name)
	if d == nil {
		return false, nil
	}
	defer release()
	return true, f(d)
}

// precheck refuses claims that are known to be stale in the database. Nobody knows any in a database
// that is not open.
func (at *place) precheck(ctx context.Context, claims []marks.Presented) error {
	_, err := at.ask(func(d *database) error { return d.Admission.Precheck(ctx, claims) })
	return err
}
