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

// signals are the signals that a worker has received.
type signals struct {
	inside atomic.Bool // stop inside the next transaction
	jumps  atomic.Bool // the clock has jumped

	mu sync.Mutex
	on chan struct{} // closed by USR2
}

func newSignals() *signals { return &signals{on: make(chan struct{})} }

// catchSignals handles USR1 and USR2 until stop, which waits for the end of that.
func catchSignals() (s *signals, stop func()) {
	s = newSignals()
	received := make(chan os.Signal, 4)
	signal.Notify(received, syscall.SIGUSR1, syscall.SIGUSR2)
	var handling sync.WaitGroup
	handling.Go(func() {
		for sig := range received {
			if sig == syscall.SIGUSR1 {
				s.stopInside()
			} else {
				s.resume()
			}
		}
	})
	return s, func() {
		signal.Stop(received)
		close(received)
		handling.Wait()
	}
}

// stopInside makes the next transaction stop before its COMMIT.
func (s *signals) stopInside() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = make(chan struct{})
	s.inside.Store(true)
}

// resume ends that stop, and makes the clock jump.
func (s *signals) resume() {
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

// stopLater makes the next transaction stop instead of one that has failed before it could, unless
// resume was called meanwhile.
func (s *signals) stopLater() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.on:
	default:
		s.inside.Store(true)
	}
}

// stopRequested reports once that a transaction has to stop.
func (s *signals) stopRequested() bool { return s.inside.CompareAndSwap(true, false) }

// clock returns a clock's readings that jump when resume is called.
func (s *signals) clock(jump time.Duration) func(time.Time) time.Time {
	return func(t time.Time) time.Time {
		if !s.jumps.Load() {
			return t
		}
		return jumped(t, jump)
	}
}

// insideTime bounds how long a transaction is stopped.
const insideTime = time.Minute

// waitInside reports that a transaction is open and not committed, and waits for resume.
func (w *worker) waitInside(ctx context.Context) {
	w.signals.mu.Lock()
	on := w.signals.on
	w.signals.mu.Unlock()
	w.emit(history.Event{
		Kind: history.Fault, Fault: history.Inside, State: history.Begin, Process: w.c.Name,
	})
	ctx, cancel := context.WithTimeout(ctx, insideTime)
	defer cancel()
	select {
	case <-on:
	case <-ctx.Done():
	}
}
