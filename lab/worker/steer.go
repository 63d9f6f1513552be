package worker

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ringfence/ringfence/lab/history"
)

// steering is what signals ask of a worker.
type steering struct {
	inside atomic.Bool // stop inside the next transaction
	jumps  atomic.Bool // the clock has jumped

	mu sync.Mutex
	on chan struct{} // closed by USR2
}

func newSteering() *steering { return &steering{on: make(chan struct{})} }

// steered obeys USR1 and USR2 until stop, which waits for it.
func steered() (s *steering, stop func()) {
	s = newSteering()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	var obeying sync.WaitGroup
	obeying.Go(func() {
		for sig := range signals {
			if sig == syscall.SIGUSR1 {
				s.stopInside()
			} else {
				s.goOn()
			}
		}
	})
	return s, func() {
		signal.Stop(signals)
		close(signals)
		obeying.Wait()
	}
}

// stopInside has the next transaction stop before its COMMIT.
func (s *steering) stopInside() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = make(chan struct{})
	s.inside.Store(true)
}

// goOn lets it go on, and the clock jump.
func (s *steering) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jumps.Store(true)
	s.inside.Store(false)
	select {
	case <-s.on:
	default:
		close(s.on)
	}
}

// asked tells once that a transaction is to stop.
func (s *steering) asked() bool { return s.inside.CompareAndSwap(true, false) }

// clock reads times as a clock shows them that jumps when goOn is called.
func (s *steering) clock(jump time.Duration) func(time.Time) time.Time {
	return func(t time.Time) time.Time {
		if !s.jumps.Load() {
			return t
		}
		return jumped(t, jump)
	}
}

// insideMost bounds how long a transaction stands still.
const insideMost = time.Minute

// standInside says that a transaction stands open, with what it has done not committed, and waits to be let go on.
func (w *worker) standInside(ctx context.Context) {
	w.steer.mu.Lock()
	on := w.steer.on
	w.steer.mu.Unlock()
	w.say(history.Event{Kind: history.Fault, Fault: "inside", State: history.Begin, Process: w.c.Name})
	ctx, cancel := context.WithTimeout(ctx, insideMost)
	defer cancel()
	select {
	case <-on:
	case <-ctx.Done():
	}
}
