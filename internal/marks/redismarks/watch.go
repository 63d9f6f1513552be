package redismarks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	driver "github.com/redis/go-redis/v9"
)

// Watch stays with one server and notices when that stops being the primary. A server that becomes
// a replica and is promoted again keeps its clients' connections, and gets the marks of other
// leaders in between.
//
// One connection waits in XREAD. A server that becomes a replica ends that command at once
// (UNBLOCKED), before it replicates anything. So as long as the server lists this client as
// blocked, it has been the primary all the time. The other connection asks for that. (XREAD only
// reads: while writes are paused, a command that could write is also listed as blocked, and would
// not be ended.)
type Watch struct {
	run         string
	asks, waits *driver.Client
	waiter      int64 // the id of the client that waits
	work        sync.WaitGroup
	lost        chan struct{}
	sentinels   *sentinels // nil: there are none
	stop        func()     // the end of following them; nil: it has not begun

	mu     sync.Mutex
	server string // with the replication id
}

// watchKey is a stream that is never written.
const watchKey = "ringfence:.watch"

// errNotWaiting: the waiting connection does not wait, or not yet.
var errNotWaiting = errors.New(
	"the server was demoted, or has ended the connection that watches it",
)

// errPinned: each connection of a Watch is to one server, so it is not dialed again.
var errPinned = errors.New("the connection that watches the server is broken")

// Watch begins to watch the server that answers now. The caller must Close the Watch.
func (s *Store) Watch(ctx context.Context) (_ *Watch, err error) {
	w := &Watch{lost: make(chan struct{}), sentinels: s.o.sentinels}
	if w.asks, err = s.pinned(); err != nil {
		return nil, err
	}
	if w.waits, err = s.pinned(); err != nil {
		_ = w.asks.Close()
		return nil, err
	}
	if err := w.begin(ctx); err != nil {
		w.Close()
		return nil, Explain(err)
	}
	return w, nil
}

// pinned makes a client with one connection, which is dialed once.
func (s *Store) pinned() (*driver.Client, error) {
	o := s.o
	o.Connections, o.Reserved = 1, false
	t, err := control(s.address, o, probeConnection)
	if err != nil {
		return nil, err
	}
	opt := t.opt
	dial := opt.Dialer
	var dialed atomic.Bool
	opt.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, errPinned
		}
		return dial(ctx, network, address)
	}
	opt.MaxRetries, opt.ConnMaxIdleTime = -1, -1
	return driver.NewClient(opt), nil
}

// begin makes both connections, and returns when one of them waits.
func (w *Watch) begin(ctx context.Context) error {
	p := w.waits.Pipeline()
	id, of := p.ClientID(ctx), p.Info(ctx, "server")
	if _, err := p.Exec(ctx); err != nil {
		return err
	}
	info, err := w.asks.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	w.waiter, w.run = id.Val(), runID(info)
	if w.run != runID(of.Val()) {
		return fmt.Errorf("%w: two connections lead to two servers", errOtherRun)
	}
	waiting := context.WithoutCancel(ctx) // until Close
	w.work.Go(func() { w.wait(waiting) })
	if w.sentinels != nil {
		following, stop := context.WithCancel(waiting)
		w.stop = stop
		w.work.Go(func() { w.sentinels.follow(following) })
	}
	err = errNotWaiting
	for pause(ctx, time.Millisecond) == nil && errors.Is(err, errNotWaiting) && !w.over() {
		err = w.Prove(ctx)
	}
	if err == nil {
		err = w.Prove(ctx) // the replication id that the first answer had may be older than the wait
	}
	return err
}

// wait waits until the server ends the command or the connection.
func (w *Watch) wait(ctx context.Context) {
	defer close(w.lost)
	_ = w.waits.Do(ctx, "XREAD", "BLOCK", 0, "STREAMS", watchKey, "$").Err()
}

// Run is the run of the server.
func (w *Watch) Run() string { return w.run }

// Server is the run with the replication id of the last proof: the same again on another Watch if
// the server has not been a replica in between.
func (w *Watch) Server() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.server
}

// Lost is closed when the server is demoted, and also when the connection that waits is broken.
func (w *Watch) Lost() <-chan struct{} { return w.lost }

func (w *Watch) over() bool {
	select {
	case <-w.lost:
		return true
	default:
		return false
	}
}

// Prove returns nil if the server has been the primary from the beginning of this Watch until it
// answered. An error says that nothing is known, because a connection is broken, or that the server
// was demoted (Demoted). A call ends by its answer, by Close or at a deadline of ctx, which breaks
// the connection.
//
// A server that is busy with a script cannot be demoted before the script ends.
func (w *Watch) Prove(ctx context.Context) error {
	if w.sentinels != nil {
		_, _ = w.sentinels.primary(ctx) // closes both connections if another server is the primary
	}
	p := w.asks.Pipeline()
	replication := p.Info(ctx, "replication")
	waiter := p.Do(ctx, "CLIENT", "LIST", "ID", w.waiter)
	_, err := p.Exec(ctx)
	switch {
	case driver.HasErrorPrefix(err, "BUSY "):
		return w.heard(ctx)
	case err != nil:
		return err
	}
	line, _ := waiter.Text()
	if !strings.Contains(fieldOf(line, "flags"), "b") ||
		infoField(replication.Val(), "role") != "master" {
		return errNotWaiting
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = w.run + "/" + infoField(replication.Val(), "master_replid")
	return nil
}

// heard gives what the server may have sent before a script the time to be read.
func (w *Watch) heard(ctx context.Context) error {
	if err := pause(ctx, 10*time.Millisecond); err != nil {
		return err
	}
	if w.over() {
		return errNotWaiting
	}
	return nil
}

// Demoted reports whether the server is a replica, or has been one since this Watch began.
func (w *Watch) Demoted(ctx context.Context) (bool, error) {
	info, err := w.asks.Info(ctx, "replication").Result()
	now := w.run + "/" + infoField(info, "master_replid")
	return infoField(info, "role") != "master" || now != w.Server(), err
}

// Kill ends clients of this server, and returns when the server lists none of them.
func (w *Watch) Kill(ctx context.Context, ids []any) error {
	if len(ids) == 0 {
		return nil
	}
	return killAll(ctx, w.asks, w.run, ids, stillThere)
}

// Close ends both connections.
func (w *Watch) Close() {
	if w.stop != nil {
		w.stop()
	}
	_ = w.waits.Close()
	_ = w.asks.Close()
	w.work.Wait()
}
