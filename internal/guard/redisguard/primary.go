package redisguard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
)

const (
	// provePeriod is how often a primary is asked.
	provePeriod = time.Second
	// proofTime is how long an answer counts, from the question on. A server that runs scripts needs
	// some seconds for the next one.
	proofTime = 10 * time.Second
	// beatPeriod is how often the guard notes that it runs. If it has not for stillTime, it has stood
	// still, and the answers to earlier questions count no more.
	beatPeriod = 500 * time.Millisecond
	stillTime  = 2 * time.Second
	// rewatchTime limits the search for the server after its watch has broken.
	rewatchTime = 10 * time.Second
	// leaveTime limits the end of sessions at a server that may not answer.
	leaveTime = time.Second
)

// Watch stays with one server, as redisstore.Watch does, which documents the methods.
type Watch interface {
	Run() string
	Server() string
	Lost() <-chan struct{}
	Prove(ctx context.Context) error
	Demoted(ctx context.Context) (bool, error)
	Kill(ctx context.Context, ids []any) error
	Close()
}

// watcher begins a Watch.
type watcher func(context.Context) (Watch, error)

// primary is one run of a server at which this guard has sessions, in the time in which it is the
// primary. Once it was a replica, all these sessions end: the marks of newer leaders may have come
// to it since, and nothing else would end the sessions before it is promoted again.
//
//	proven ── the guard has stood still, or no proof for proofTime ──▶ unproven: nothing passes
//	  ▲ │                                   │
//	  └─┼── the watch answers ──────────────┤
//	    └── demoted, left, or no watch any more ──▶ over: every session has ended
type primary struct {
	run    string
	begun  time.Time
	beaten atomic.Int64  // when the guard noted last that it runs, in nanoseconds since begun
	proven atomic.Int64  // when the last proof was asked for
	wake   chan struct{} // someone waits for a proof
	over   chan struct{} // closed
	ended  chan struct{} // closed: the sessions were ended at the server, as far as it answers

	mu       sync.Mutex
	watch    Watch
	still    time.Duration // when the guard has noticed that it had stood still
	next     chan struct{} // closed at the next proof
	why      error         // set before over is closed
	sessions map[int64]func(error)
}

// newPrimary returns the primary of a watch that was asked for at this time, and is proven.
func newPrimary(w Watch, asked time.Time) *primary {
	return &primary{
		run: w.Run(), begun: asked, watch: w, sessions: make(map[int64]func(error)),
		wake: make(chan struct{}, 1), over: make(chan struct{}), ended: make(chan struct{}),
		next: make(chan struct{}),
	}
}

func (at *primary) isOver() bool {
	select {
	case <-at.over:
		return true
	default:
		return false
	}
}

// add has stop called when the sessions of this primary end. It returns why if they have ended.
func (at *primary) add(session int64, stop func(error)) error {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.why == nil {
		at.sessions[session] = stop
	}
	return at.why
}

func (at *primary) remove(session int64) {
	at.mu.Lock()
	defer at.mu.Unlock()
	delete(at.sessions, session)
}

// pass returns nil when the next bytes of a client may go to the server. Without a recent proof it
// calls wait and waits for the next one: Redis may be busy with a script for long, and nothing is
// lost meanwhile. done ends that.
func (at *primary) pass(done <-chan struct{}, wait func()) error {
	if at.isProven() {
		return nil
	}
	wait()
	since := at.now() // what is asked from now on counts however late the answer comes
	for !at.isProven() && at.proven.Load() < int64(since) {
		at.mu.Lock()
		next, why := at.next, at.why
		at.mu.Unlock()
		if why != nil {
			return why
		}
		select {
		case at.wake <- struct{}{}:
		default:
		}
		select {
		case <-next:
		case <-at.over:
		case <-done:
			return errors.New("the session has ended")
		}
	}
	return nil
}

func (at *primary) now() time.Duration { return time.Since(at.begun) }

func (at *primary) isProven() bool {
	now := int64(at.now())
	return now-at.beaten.Load() < int64(stillTime) && now-at.proven.Load() < int64(proofTime)
}

// beat notes all the time that the guard runs.
func (at *primary) beat(ctx context.Context) {
	tick := time.NewTicker(beatPeriod)
	defer tick.Stop()
	for ctx.Err() == nil {
		if now := at.now(); now-time.Duration(at.beaten.Load()) >= stillTime {
			at.stoodStill(now) // before it is noted, or a session might take the break for none
		}
		at.beaten.Store(int64(at.now()))
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// stoodStill discards every proof that was asked for until now.
func (at *primary) stoodStill(now time.Duration) {
	at.mu.Lock()
	defer at.mu.Unlock()
	at.still = now
	at.proven.Store(noProof)
}

// noProof is a time that is too long ago.
const noProof = math.MinInt64 / 2

// keep asks for proofs until the server is not the primary any more, or ctx ends.
func (at *primary) keep(ctx context.Context, open watcher) {
	defer func() { at.current().Close() }()
	defer context.AfterFunc(ctx, func() { at.current().Close() })() // a proof that is under way ends
	var beats sync.WaitGroup
	defer beats.Wait()
	beating, stop := context.WithCancel(ctx)
	defer stop()
	beats.Go(func() { at.beat(beating) })
	for at.prove(ctx); ctx.Err() == nil && !at.isOver(); at.prove(ctx) {
		if err := at.rewatch(ctx, open); err != nil && ctx.Err() == nil {
			at.end(ctx, err)
		}
	}
	if at.isOver() {
		<-at.ended // through the watch
	}
}

func (at *primary) current() Watch {
	at.mu.Lock()
	defer at.mu.Unlock()
	return at.watch
}

// prove asks for proofs until the watch does not answer, or says that the server was demoted.
func (at *primary) prove(ctx context.Context) {
	w := at.current()
	tick := time.NewTicker(provePeriod)
	defer tick.Stop()
	defer at.proven.Store(noProof)
	for {
		asked := at.now()
		if err := w.Prove(ctx); err != nil {
			return
		}
		at.confirm(asked)
		select {
		case <-tick.C:
		case <-at.wake:
		case <-w.Lost():
			return
		case <-at.over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// confirm notes a proof and lets those go on that wait for one.
func (at *primary) confirm(asked time.Duration) {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.why != nil || asked < at.still {
		return
	}
	at.proven.Store(int64(asked))
	close(at.next)
	at.next = make(chan struct{})
}

// rewatch begins another watch after the last one has failed. The server must be the same run, and
// have the same replication id, which each promotion changes.
func (at *primary) rewatch(ctx context.Context, open watcher) error {
	ctx, cancel := context.WithTimeout(ctx, rewatchTime)
	defer cancel()
	before := at.current()
	if demoted, err := at.demoted(ctx, before); demoted && err == nil {
		return errors.New("the server was demoted")
	}
	var failed error
	for ctx.Err() == nil && !at.isOver() {
		w, err := open(ctx)
		if err == nil && w.Server() == before.Server() {
			at.replace(w)
			return nil
		}
		if err == nil {
			w.Close()
			return fmt.Errorf("%s answers now, and was %s", w.Server(), before.Server())
		}
		if failed = err; isSetup(err) {
			break // such as a replica
		}
		select {
		case <-time.After(provePeriod / 10):
		case <-at.over:
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("the server cannot be watched: %w", cmp.Or(failed, context.Cause(ctx)))
}

func isSetup(err error) bool {
	_, setup := errors.AsType[*fence.SetupError](err)
	return setup
}

func (at *primary) demoted(ctx context.Context, w Watch) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	return w.Demoted(ctx)
}

func (at *primary) replace(w Watch) {
	at.mu.Lock()
	before := at.watch
	at.watch = w
	at.mu.Unlock()
	before.Close()
}

// end ends every session: the guard passes on nothing more of theirs, and the server closes their
// connections, where it answers. It returns when that is done, also if another call has begun it.
func (at *primary) end(ctx context.Context, why error) {
	ids, stops, first := at.close(why)
	if !first {
		select {
		case <-at.ended:
		case <-ctx.Done():
		}
		return
	}
	defer close(at.ended)
	for _, stop := range stops {
		stop(at.why)
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	// otherwise they end with their connections, or are named by a raise
	_ = at.current().Kill(ctx, ids)
}

// close lets nothing more pass, and returns what is to be ended.
func (at *primary) close(why error) (ids []any, stops []func(error), first bool) {
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.why != nil {
		return nil, nil, false
	}
	at.why = &leftError{why}
	at.proven.Store(noProof)
	close(at.over)
	for id, stop := range at.sessions {
		ids, stops = append(ids, id), append(stops, stop)
	}
	return ids, stops, true
}

// leftError ends a session whose server is not the primary any more.
type leftError struct{ why error }

func (e *leftError) Error() string {
	return "the session has ended: " + e.why.Error() + "; connect again"
}

// Unwrap makes the server count it.
func (e *leftError) Unwrap() []error { return []error{guard.Demoted, e.why} }
