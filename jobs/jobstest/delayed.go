package jobstest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
)

// delayed is a coordinator to which some changes of documents are long on their way.
type delayed struct {
	documents.Coordinator
	s    *stage
	sent chan *letter
	work sync.WaitGroup

	mu    sync.Mutex
	holds func(documents.Change) bool
}

// letter is a change that was sent and has not arrived. Nobody can call it back.
type letter struct {
	s       *stage
	leave   chan struct{}
	lost    chan struct{} // the sender waits no longer
	arrived chan error    // what the coordinator answers
	unheard bool          // the sender does not hear of it
}

// delays opens a client whose changes can be delayed.
func (s *stage) delays() *delayed {
	s.Helper()
	d := &delayed{Coordinator: s.connect(), s: s, sent: make(chan *letter, 100)}
	s.Cleanup(d.work.Wait) // before the client is closed
	return d
}

// hold delays such changes from now on. nil: none.
func (d *delayed) hold(such func(documents.Change) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holds = such
}

// next waits for the next change that is delayed.
func (d *delayed) next() *letter {
	d.s.Helper()
	limit := time.NewTimer(d.s.f.patience)
	defer limit.Stop()
	select {
	case l := <-d.sent:
		return l
	case <-d.s.ctx.Done():
	case <-limit.C:
	}
	d.s.Fatal("no change is sent in time")
	return nil
}

// arrives lets the change arrive, and returns what the coordinator answers.
func (l *letter) arrives() error {
	close(l.leave)
	select {
	case err := <-l.arrived:
		return err
	case <-l.s.ctx.Done():
		return context.Cause(l.s.ctx)
	}
}

// arrivesUnheard lets the change arrive, and its answer be lost.
func (l *letter) arrivesUnheard() error {
	l.unheard = true
	return l.arrives()
}

// unanswered has the sender give up waiting. The change may still arrive.
func (l *letter) unanswered() { close(l.lost) }

// unanswered does so to all changes that are delayed by now, but to none that next has returned.
func (d *delayed) unanswered() {
	for {
		select {
		case l := <-d.sent:
			l.unanswered()
		default:
			return
		}
	}
}

// Documents implements documents.Coordinator.
func (d *delayed) Documents() documents.Store { return delayedStore{d.Coordinator.Documents(), d} }

type delayedStore struct {
	documents.Store
	d *delayed
}

// Change implements documents.Store.
func (s delayedStore) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	s.d.mu.Lock()
	delay := s.d.holds != nil && s.d.holds(c)
	s.d.mu.Unlock()
	if !delay {
		return s.Store.Change(ctx, c)
	}
	l := &letter{
		s: s.d.s, leave: make(chan struct{}), lost: make(chan struct{}), arrived: make(chan error, 1),
	}
	type answer struct {
		versions []int64
		err      error
	}
	answered := make(chan answer, 1)
	s.d.work.Go(func() {
		select {
		case <-l.leave:
		case <-l.s.ctx.Done():
			return
		}
		versions, err := s.Store.Change(context.WithoutCancel(ctx), c)
		if l.unheard {
			answered <- answer{err: fmt.Errorf("%w: the answer was lost", documents.ErrUnknown)}
		} else {
			answered <- answer{versions, err}
		}
		l.arrived <- err
	})
	s.d.sent <- l
	select {
	case a := <-answered:
		return a.versions, a.err
	case <-l.lost:
	case <-ctx.Done():
	case <-l.s.ctx.Done():
	}
	return nil, fmt.Errorf("%w: no answer", documents.ErrUnknown)
}
