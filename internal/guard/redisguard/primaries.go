package redisguard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// primaries are the servers at which this guard has sessions: one, except for the moment of a
// failover. Each has a watch as long as the guard runs, or until the server stops being the
// primary.
type primaries struct {
	open watcher

	ctx  context.Context // ended by close
	stop context.CancelFunc
	work sync.WaitGroup
	turn chan struct{} // holds a value while a watch is opened

	mu  sync.Mutex
	all map[*primary]bool // until their sessions have ended
}

func newPrimaries(open watcher) *primaries {
	ctx, stop := context.WithCancel(context.Background())
	return &primaries{open: open, ctx: ctx, stop: stop,
		turn: make(chan struct{}, 1), all: make(map[*primary]bool)}
}

// close ends all watches, and waits. Every session must have ended.
func (ps *primaries) close() {
	ps.stop()
	ps.work.Wait()
}

// join returns the primary of this run, on which a session is about to be admitted. It ends the
// sessions on every other run first, since those are older: what answers the guard is the primary
// now. It fails if the server cannot be watched.
func (ps *primaries) join(ctx context.Context, run string) (*primary, error) {
	at := ps.find(run)
	if at == nil {
		var err error
		if at, err = ps.begin(ctx, run); err != nil {
			return nil, fmt.Errorf("the server cannot be watched, nothing was admitted: %w", err)
		}
	}
	ps.leaveOthers(ctx, at)
	return at, nil
}

// find returns the primary of a run, or any if that is empty, if it is still watched.
func (ps *primaries) find(run string) *primary {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for at := range ps.all {
		if (run == "" || at.run == run) && !at.isOver() {
			return at
		}
	}
	return nil
}

// prepare watches the server that answers now, if none is watched, so that no newcomer has to wait
// for that: a server that is busy takes long to answer.
func (ps *primaries) prepare(ctx context.Context) error {
	if ps.find("") != nil {
		return nil
	}
	_, err := ps.begin(ctx, "")
	return err
}

// begin watches the server that answers now, if it is of this run. An empty run stands for any.
func (ps *primaries) begin(ctx context.Context, run string) (*primary, error) {
	select {
	case ps.turn <- struct{}{}:
		defer func() { <-ps.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if at := ps.find(run); at != nil {
		return at, nil // somebody else has had the turn before
	}
	asked := time.Now()
	w, err := ps.open(ctx)
	switch {
	case err != nil:
		return nil, err
	case run != "" && w.Run() != run:
		w.Close()
		return nil, &fence.SetupError{
			What: fmt.Sprintf("the client is on run %s of Redis, and %s answers now", run, w.Run()),
			Hint: "during a failover try again; otherwise all connections must reach one server",
		}
	}
	return ps.keep(newPrimary(w, asked))
}

// keep keeps the watch of a primary in a goroutine.
func (ps *primaries) keep(at *primary) (*primary, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.ctx.Err() != nil {
		at.watch.Close()
		return nil, context.Cause(ps.ctx)
	}
	ps.all[at] = true
	ps.work.Go(func() {
		at.keep(ps.ctx, ps.open)
		ps.forget(at)
	})
	return at, nil
}

func (ps *primaries) forget(at *primary) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.all, at)
}

// leaveOthers ends the sessions on all other runs. A server that does not answer holds it up for a
// second: the guard passes nothing more to it in any case.
func (ps *primaries) leaveOthers(ctx context.Context, at *primary) {
	ps.mu.Lock()
	var others []*primary
	for other := range ps.all {
		if other != at {
			others = append(others, other)
		}
	}
	ps.mu.Unlock()
	var left sync.WaitGroup
	for _, other := range others {
		left.Go(func() { other.end(ctx, errors.New("another server is the primary now")) })
	}
	left.Wait()
}
