package postgres

import (
	"context"
	"sync"
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

// place is the database that a client asks for. While the client is there, the database stays open.
type place struct {
	all  *databases
	name string
	db   *database // nil while it is not open
}

// open opens the database, if it is not open yet.
func (at *place) open(ctx context.Context) error {
	if at.db != nil {
		return nil
	}
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

// precheck refuses claims that are known to be stale in the database. Nobody knows any in a database
// that is not open.
func (at *place) precheck(ctx context.Context, claims []marks.Presented) error {
	if at.db == nil {
		return nil
	}
	return at.db.Admission.Precheck(ctx, claims)
}
