package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/group"
	"github.com/ringfence/ringfence/internal/backoff"
)

// Worker runs jobs that are assigned to it, and assigns jobs while its group has elected it.
type Worker struct {
	Queue    *Queue
	Handlers map[string]Handler // by kind; it is assigned no other kind
	Name     string             // for people, such as host name and process id
	Capacity int                // how many jobs it runs at once. Default 4
	Labels   []string           // jobs that name a label go to workers that have it

	// Stores get the mark of a job's term raised before its handler is called.
	Stores []fence.Raiser

	// Strategy is used while this worker assigns. Default: least-loaded.
	Strategy Strategy

	// Grace is how long handlers may go on after Run's context has ended, before their contexts end.
	Grace time.Duration

	Log *slog.Logger // default: nothing is logged
}

const defaultCapacity = 4

// Run runs jobs until ctx ends. Then it takes no more jobs, waits for its handlers, and gives back
// what has not ended. It also returns after an error that trying again cannot fix, such as wrong
// credentials at the coordinator.
func (w Worker) Run(ctx context.Context) error {
	if w.Capacity <= 0 {
		w.Capacity = defaultCapacity
	}
	if w.Log == nil {
		w.Log = slog.New(slog.DiscardHandler)
	}
	if w.Strategy == nil {
		w.Strategy = leastLoaded{}
	}
	o := offer{Capacity: w.Capacity, Labels: w.Labels, Kinds: slices.Sorted(maps.Keys(w.Handlers))}
	m, err := w.Queue.join(ctx, w.Name, o)
	switch {
	case ctx.Err() != nil && m == nil:
		return nil
	case err != nil:
		return err
	}
	defer m.Leave()
	s := newShift(w)
	var background sync.WaitGroup
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	background.Go(func() { w.lead(ctx) })
	background.Go(func() { s.followCancellations(working) })
	err = s.follow(ctx, m)
	id, _, _ := m.ID()
	s.drain(id)
	stop()
	background.Wait()
	return err
}

// lead assigns jobs whenever this worker is elected, until ctx ends.
func (w Worker) lead(ctx context.Context) {
	lead := fence.Lead{Elector: w.Queue.at, Resource: w.Queue.Leader(), Holder: w.Name}
	for failures := 1; ctx.Err() == nil; failures++ {
		began := time.Now()
		err := lead.Run(ctx, func(ctx context.Context, t *fence.Term) error {
			return assign(ctx, w.Queue, t.Claim(), w.Strategy, w.Log)
		})
		if ctx.Err() != nil {
			return
		}
		w.Log.Warn("no longer the assigner jobs", "error", err)
		if time.Since(began) > backoff.Most {
			failures = 1
		}
		backoff.Pause(ctx, backoff.After(failures, backoff.Least, backoff.Most))
	}
}

// shift is what a worker does in one Run.
type shift struct {
	Worker
	slots chan struct{} // one for each job that runs

	mu        sync.Mutex
	member    fence.Token     // under which the assignments are
	names     []string        // of the assignments
	tries     map[string]*try // by name of the assignment; one that has ended stays while that is there
	cancelled map[ID]bool     // somebody has asked for it
	over      bool            // no more jobs
	work      sync.WaitGroup
}

func newShift(w Worker) *shift {
	return &shift{Worker: w, slots: make(chan struct{}, w.Capacity), tries: map[string]*try{}}
}

// try is a job that is assigned to this worker.
type try struct {
	s       *shift
	id      ID
	attempt int
	worker  fence.Token // the member to which it is assigned
	ctx     context.Context
	cancel  context.CancelCauseFunc
	begun   bool // its handler was called; guarded by the shift's mutex. Only run's goroutine writes it
	ended   bool // what it has brought is published; of run's goroutine
}

// follow runs what is assigned to this worker, under each ID that it has as a member, until ctx ends.
func (s *shift) follow(ctx context.Context, m *group.Membership) error {
	for {
		id, changed, err := m.ID()
		if err != nil {
			return fmt.Errorf("work for %s: %w", s.Queue.group.Name(), err)
		}
		present, stop := context.WithCancel(ctx)
		var watching sync.WaitGroup
		if id != 0 {
			s.Log.Info("waiting for jobs", "worker", id.String())
			watching.Go(func() { s.followAssignments(present, id) })
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
		stop()
		watching.Wait()
		if ctx.Err() != nil {
			return nil
		}
		s.assigned(0, nil) // what the earlier member had is not this one's
	}
}

// followAssignments runs what is assigned to one member.
func (s *shift) followAssignments(ctx context.Context, id fence.Token) {
	s.keepWatching(ctx, "assignments", func(ctx context.Context) error {
		return s.Queue.docs.WatchNames(ctx, s.Queue.paths.assigned(id), func(names []string) error {
			s.assigned(id, names)
			return nil
		})
	})
}

// followCancellations tells handlers that their jobs are cancelled.
func (s *shift) followCancellations(ctx context.Context) {
	s.keepWatching(ctx, "cancellations", func(ctx context.Context) error {
		return s.Queue.docs.WatchNames(ctx, s.Queue.paths.cancellations(), func(names []string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.cancelled = map[ID]bool{}
			for _, name := range names {
				s.cancelled[ID(name)] = true
			}
			for _, t := range s.tries {
				if s.cancelled[t.id] {
					t.cancel(ErrCancelled)
				}
			}
			return nil
		})
	})
}

// keepWatching watches until ctx ends.
func (s *shift) keepWatching(
	ctx context.Context, what string, watch func(context.Context) error,
) {
	for failures := 1; ctx.Err() == nil; failures++ {
		if err := watch(ctx); ctx.Err() == nil {
			s.Log.Warn("cannot watch "+what, "group", s.Queue.group.Name(), "error", err)
			backoff.Pause(ctx, backoff.After(failures, backoff.Least, backoff.Most))
		}
	}
}

// assigned starts and stops tries, so that they are those that are assigned to a member.
func (s *shift) assigned(member fence.Token, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.member, s.names = member, names
	there := asSet(names)
	for name, t := range s.tries {
		if t.worker != member || !there[name] {
			t.cancel(ErrTakenBack)
			delete(s.tries, name)
		}
	}
	for _, name := range names {
		id, attempt, ok := parseAssignment(name)
		if !ok || s.over || s.tries[name] != nil {
			continue
		}
		t := &try{s: s, id: id, attempt: attempt, worker: member}
		t.ctx, t.cancel = context.WithCancelCause(context.Background())
		if s.cancelled[id] {
			t.cancel(ErrCancelled)
		}
		s.tries[name] = t
		s.work.Go(t.run)
	}
}

// begin records that a handler is called, unless the shift is over.
func (s *shift) begin(t *try) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over && !t.begun {
		return ErrStopping
	}
	t.begun = true
	return nil
}

// stops reports whether the shift is over.
func (s *shift) stops() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// drain ends the shift: it takes no more jobs, and waits for those that it has.
func (s *shift) drain(worker fence.Token) {
	s.mu.Lock()
	s.over = true
	for _, t := range s.tries {
		if !t.begun {
			t.cancel(ErrStopping)
		}
	}
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() { defer close(ended); s.work.Wait() }()
	if worker != 0 {
		s.announce(worker)
	}
	grace := time.NewTimer(s.Grace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
	}
	s.mu.Lock()
	for _, t := range s.tries {
		t.cancel(ErrStopping)
	}
	s.mu.Unlock()
	<-ended
	if worker != 0 {
		s.returnRest(worker)
	}
}

// announceTimeout bounds how long a worker that stops tries to say so.
const announceTimeout = 2 * time.Second

// announce tells the assigner that this worker takes no more jobs.
func (s *shift) announce(worker fence.Token) {
	ctx, cancel := context.WithTimeout(context.Background(), announceTimeout)
	defer cancel()
	change := documents.Change{
		Writes: []documents.Write{documents.Create(s.Queue.paths.draining()+"/"+worker.String(), nil)},
	}
	for failures := 1; ; failures++ {
		_, err := s.Queue.docs.Change(ctx, change)
		if err == nil || errors.Is(err, documents.ErrConflict) { // an answer was lost
			return
		}
		if !again(err) || ctx.Err() != nil {
			s.Log.Warn("could not say that this worker stops", "error", err)
			return
		}
		backoff.Pause(ctx, backoff.After(failures, backoff.Least, backoff.Most))
	}
}

// returnRest gives back what was assigned to this worker and never begun.
func (s *shift) returnRest(worker fence.Token) {
	ctx, cancel := context.WithTimeout(context.Background(), announceTimeout)
	defer cancel()
	names, err := s.Queue.docs.Names(ctx, s.Queue.paths.assigned(worker))
	if err != nil {
		return // the assigner takes it back
	}
	for _, name := range names {
		if id, attempt, ok := parseAssignment(name); ok {
			t := &try{s: s, id: id, attempt: attempt, worker: worker}
			t.giveBack(nil)
		}
	}
}
