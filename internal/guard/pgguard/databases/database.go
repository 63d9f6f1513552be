// Package databases keeps those databases of a Postgres server open that the clients of a guard
// use. The home database is open for as long as the guard runs. Another one is opened for the first
// client that the server has let in, and closed when it has been unused for a while, or was
// dropped. There is never more than one of a name.
package databases

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
)

// Database is what a guard needs to serve one database of the server.
type Database struct {
	Store     *pgmarks.Store
	Admission *marks.Admission
	Closing   func() // called before the Store is closed; may be nil
}

// Opened is a Database that is open, or that is being opened or closed.
type Opened struct {
	Database
	Name string

	opened chan struct{} // closed when it is open, or when err says why not
	err    error
	gone   chan struct{} // closed when it is closed, so that it can be opened again

	stop      context.CancelFunc
	listening sync.WaitGroup
	dropped   atomic.Bool // the server has no such database any more

	// The mutex of the Set guards these.
	ready   bool      // it is open
	closing bool      // it is being closed
	users   int       // logins and sessions
	left    time.Time // when the last of them left
}

// listen ends sessions of this process that other processes have overtaken, until close.
func (d *Opened) listen() {
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.listening.Go(func() {
		d.Store.Listen(ctx, func(r fence.Resource) { d.Admission.Overtaken(ctx, r) })
		d.dropped.Store(ctx.Err() == nil)
	})
}

// close closes the store, if it was opened.
func (d *Opened) close() {
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

// Selected is the database that a client asks for. Once it is open for the client, it stays open
// until the client leaves.
type Selected struct {
	*Opened // nil until open
	Name    string
	set     *Set
}

// Open opens the database for a client that has logged in, or that leads, in 10 s at most. It may
// be called twice.
func (at *Selected) Open(ctx context.Context) (err error) {
	if at.Opened != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	at.Opened, err = at.set.use(ctx, at.Name)
	return err
}

// Leave lets the database be closed. It may be called twice.
func (at *Selected) Leave() {
	if at.Opened != nil {
		at.set.leave(at.Opened)
		at.Opened = nil
	}
}

// Ask calls f with the database if it is open, and reports whether it is. A client that has not
// logged in opens no database, and keeps none open for longer than f takes.
func (at *Selected) Ask(f func(*marks.Admission) error) (open bool, err error) {
	found, release := at.set.Hold(at.Name)
	defer release()
	if len(found) == 0 {
		return false, nil
	}
	return true, f(found[0].Admission)
}
