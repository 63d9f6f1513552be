package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/postgres/pglogin"
)

// pool keeps a few connections. Unlike pgxpool's, a connection that was given up does not count
// while pgx still says goodbye to a server that does not answer (up to 15 s): the heartbeat must go
// on.
type pool struct {
	address
	slots chan struct{} // one for each connection in use

	mu     sync.Mutex
	idle   []*pgx.Conn
	closed bool
	ending sync.WaitGroup // connections that are being closed
}

func newPool(a address, most int) *pool {
	return &pool{address: a, slots: make(chan struct{}, most)}
}

// do uses a connection.
func (p *pool) do(ctx context.Context, use func(*pgx.Conn) error) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.slots }()
	conn := p.popIdle()
	if conn == nil {
		var err error
		if conn, err = connect(ctx, p.address); err != nil {
			return err
		}
	}
	err := use(conn)
	p.give(conn, broken(err))
	return err
}

// connect opens a connection to the first host of the URL that is the primary. Each host gets its
// share of the time that ctx leaves: one that is frozen or cut off accepts connections and is
// silent, or answers nothing at all, and would use up all of it.
func connect(ctx context.Context, a address) (*pgx.Conn, error) {
	if err := a.failed.fresh(); err != nil {
		return nil, err
	}
	cfg := a.cfg
	deadline, limited := ctx.Deadline()
	if limited && a.hosts > 1 {
		share := time.Until(deadline) / time.Duration(a.hosts)
		if cfg.ConnectTimeout == 0 || share < cfg.ConnectTimeout {
			cfg = cfg.Copy()
			cfg.ConnectTimeout = max(share, time.Millisecond) // 0 is no limit
		}
	}
	conn, err := pglogin.Connect(ctx, cfg, a.password)
	if err == nil {
		return conn, nil
	}
	err = explain(err)
	if ctx.Err() == nil {
		a.failed.note(err)
	}
	return nil, err
}

// failure is the last failure to connect. A process may have dozens of calls that all want a
// connection.
type failure struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// fresh returns the last failure if another attempt would come too soon after it.
func (f *failure) fresh() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.at) < 250*time.Millisecond {
		return f.err
	}
	return nil
}

func (f *failure) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.err = time.Now(), err
}

// popIdle returns an idle connection, or nil.
func (p *pool) popIdle() *pgx.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	conn := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return conn
}

// give takes a connection back. One that is broken takes the idle ones with it.
func (p *pool) give(conn *pgx.Conn, broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	broken = broken || conn.IsClosed()
	if broken {
		p.dropIdle()
	}
	if broken || p.closed {
		p.drop(conn)
		return
	}
	p.idle = append(p.idle, conn)
}

// close closes the pool when no connection is in use any more. It does not wait long for the
// goodbyes to a server that does not answer.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.dropIdle()
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.ending.Wait()
	}()
	limit := time.NewTimer(2 * time.Second)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
	}
}

// dropIdle closes the idle connections. The caller holds mu.
func (p *pool) dropIdle() {
	for _, conn := range p.idle {
		p.drop(conn)
	}
	p.idle = nil
}

// drop closes a connection in the background.
func (p *pool) drop(conn *pgx.Conn) {
	p.ending.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
		<-conn.PgConn().CleanupDone()
	})
}
