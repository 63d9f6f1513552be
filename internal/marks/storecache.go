package marks

import (
	"context"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
)

const (
	// maxKeep is how long a store is kept after it was reached without a guard. Then the raiser looks
	// again: the address may lead elsewhere by now, although the connection still works.
	maxKeep = time.Minute
	// maxAlive is how long a kept connection may take to answer before it is replaced.
	maxAlive = time.Second
)

// Reached is a store with the connection to it.
type Reached interface {
	Store
	Ping(context.Context) error // asks the server for any answer; it dials if there is no connection
	Close()
}

// StoreCache keeps the store that a raise has reached without a guard, for the next raises. It is
// replaced after a minute, and when a raise fails there. A store remembers no mark and no run of
// its server, so it does not matter which raise it was opened for. Any goroutine may use a
// StoreCache. The zero value is ready; with nil nothing is kept.
type StoreCache struct {
	mu     sync.Mutex
	last   *borrowed // nil if there is none
	closed bool

	closing sync.WaitGroup // a connection that does not answer takes the driver 15 s to close
}

// borrowed is a store that is closed when nobody uses it any more and it is not kept.
type borrowed struct {
	Reached
	opened time.Time
	users  int
}

// Raise raises the mark at the store that is kept, if that works. Otherwise present opens a session
// under the claim, so that a guard, if there is one, raises the mark. Without a guard, Raise opens
// the store, raises the mark there, and keeps the store, unless another one is kept by now. by may
// be nil.
func (k *StoreCache) Raise(
	ctx context.Context, by Authority, c fence.Claim,
	present func(context.Context, fence.Claim) (guarded bool, err error), open func() (Reached, error),
) error {
	if by == nil {
		by = Unverified{}
	}
	if l := k.borrow(); l != nil {
		err := alive(ctx, l)
		if err == nil {
			err = raiseAt(ctx, l, by, c)
		}
		k.giveBack(l, err == nil)
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	if guarded, err := present(ctx, c); guarded || err != nil {
		return err
	}
	s, err := open()
	if err != nil {
		return err
	}
	err = raiseAt(ctx, s, by, c)
	if err != nil || !k.keep(s) {
		s.Close()
	}
	return err
}

// Close closes the store that is kept, as soon as no raise uses it, and waits for those that were
// replaced. Later raises keep nothing.
func (k *StoreCache) Close() {
	k.mu.Lock()
	k.closed = true
	l := k.last
	k.last = nil
	unused := l != nil && l.users == 0
	k.mu.Unlock()
	if unused {
		l.Close()
	}
	k.closing.Wait()
}

// raiseAt raises with a new Admission: what an earlier raise has seen of the marks decides nothing.
func raiseAt(ctx context.Context, s Store, by Authority, c fence.Claim) error {
	a := Admission{Store: s, Authority: by}
	return a.Raise(ctx, c)
}

func alive(ctx context.Context, s Reached) error {
	ctx, cancel := context.WithTimeout(ctx, maxAlive)
	defer cancel()
	return s.Ping(ctx)
}

// borrow returns the store that is kept, and counts a user.
func (k *StoreCache) borrow() *borrowed {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last != nil {
		k.last.users++
	}
	return k.last
}

// giveBack ends one use. A store that has failed or is too old is not kept.
func (k *StoreCache) giveBack(l *borrowed, good bool) {
	k.mu.Lock()
	l.users--
	if k.last == l && (!good || time.Since(l.opened) > maxKeep) {
		k.last = nil
	}
	unused := k.last != l && l.users == 0
	if unused && !k.closed {
		k.closing.Go(l.Close)
		unused = false
	}
	k.mu.Unlock()
	if unused {
		l.Close()
	}
}

// keep reports whether the store is kept now.
func (k *StoreCache) keep(s Reached) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.last != nil {
		return false
	}
	k.last = &borrowed{Reached: s, opened: time.Now()}
	return true
}
