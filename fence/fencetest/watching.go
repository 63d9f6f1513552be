package fencetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/test/must"
)

// watcher is a Watch in progress.
type watcher struct {
	s     *stage
	seen  chan []elector.Candidate
	ended chan error
	stop  context.CancelCauseFunc

	last     []elector.Candidate // as sees has read them
	youngest fence.Token
}

func (s *stage) watch(c elector.Coordinator) *watcher {
	ctx, stop := context.WithCancelCause(s.ctx)
	w := &watcher{s: s, seen: make(chan []elector.Candidate, 1000),
		ended: make(chan error, 1), stop: stop}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.ended <- c.Watch(ctx, s.resource, func(queue []elector.Candidate) error {
			w.seen <- queue
			return nil
		})
	}()
	s.Cleanup(func() { stop(nil); <-done })
	return w
}

// sees waits until a queue of these holders is seen, with the first one ready or not.
func (w *watcher) sees(ready bool, holders ...string) {
	w.s.Helper()
	limit := time.After(w.s.patience)
	for {
		select {
		case queue := <-w.seen:
			w.inOrder(queue)
			names := []string{}
			for _, c := range queue {
				names = append(names, c.Holder)
			}
			if slices.Equal(names, holders) && (len(queue) == 0 || queue[0].Ready == ready) {
				return
			}
		case err := <-w.ended:
			w.s.Fatalf("the watch ended: %v", err)
		case <-limit:
			w.s.Fatalf("the watch has not seen %q, ready %v; candidates are %+v", holders,
				ready, w.s.queue())
		}
	}
}

func watchSeesChanges(s *stage) {
	w := s.watch(s.open())
	w.sees(false) // an election nobody entered yet
	leader := s.lead(s.open(), "a")
	w.sees(false, "a")
	late := s.watch(s.observer)
	late.sees(false, "a")
	must.Succeed(s, leader.Acknowledge(s.ctx))
	w.sees(true, "a")
	late.sees(true, "a")
	b := s.enrol(s.open(), "b")
	w.sees(true, "a", "b")
	s.resign(leader)
	w.sees(false, "b")
	next := b.term()
	must.Succeed(s, next.Acknowledge(s.ctx))
	w.sees(true, "b")
	late.sees(true, "b")
	s.resign(next)
	w.sees(false)
	late.sees(false)
}

func watchEnds(s *stage) {
	enough := errors.New("enough")
	err := s.observer.Watch(s.ctx, s.resource, func([]elector.Candidate) error { return enough })
	if !errors.Is(err, enough) {
		s.Errorf("Watch whose callback failed returned %v", err)
	}
	w := s.watch(s.open())
	w.sees(false)
	w.stop(enough)
	select {
	case err := <-w.ended:
		if !errors.Is(err, enough) {
			s.Errorf("Watch whose context ended returned %v; want its cause", err)
		}
	case <-time.After(s.patience):
		s.Error("Watch continues after its context ended")
	}
}
