package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/internal/network/backoff"
	"github.com/ringfence/ringfence/jobs/assign"
	"github.com/ringfence/ringfence/jobs/internal/assigner"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// Worker runs jobs that are assigned to it, and assigns jobs while its group has elected it.
type Worker struct {
	Queue    *Queue
	Handlers map[string]Handler // by kind; it is assigned no other kind
	Name     string             // for people, such as host name and process id
	Capacity int                // how many jobs it runs at once, at most 1,000,000. Default 4
	Labels   []string           // jobs that name a label go to workers that have it

	// Stores get the mark of a job's term raised before its handler is called.
	Stores []fence.Raiser

	// Strategy is used while this worker assigns. Default: least-loaded.
	Strategy assign.Strategy

	// Grace is how long handlers may go on after Run's context has ended, before their contexts end.
	Grace time.Duration
	// EndGrace ends the grace when it is closed. May be nil.
	EndGrace <-chan struct{}

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
	w.Capacity = min(w.Capacity, records.MaxCapacity)
	if w.Log == nil {
		w.Log = slog.New(slog.DiscardHandler)
	}
	if w.Strategy == nil {
		w.Strategy = assign.Default()
	}
	o := records.Offer{
		Capacity: w.Capacity, Labels: w.Labels, Kinds: slices.Sorted(maps.Keys(w.Handlers)),
	}
	m, err := w.Queue.store.Join(ctx, w.Name, o)
	switch {
	case ctx.Err() != nil && m == nil:
		return nil
	case err != nil:
		return err
	}
	defer m.Leave()
	r := newRunner(w)
	var background sync.WaitGroup
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	background.Go(func() { w.lead(ctx) })
	background.Go(func() { r.followCancellations(working) })
	background.Go(func() { r.followPeeks(working) })
	err = r.follow(ctx, m)
	id, _, _ := m.ID()
	r.drain(id)
	stop()
	background.Wait()
	return err
}

// lead assigns jobs whenever this worker is elected, until ctx ends.
func (w Worker) lead(ctx context.Context) {
	lead := fence.Lead{Elector: w.Queue.store.At, Resource: w.Queue.Leader(), Holder: w.Name}
	for failures := 1; ctx.Err() == nil; failures++ {
		began := time.Now()
		err := lead.Run(ctx, func(ctx context.Context, t *fence.Term) error {
			return assigner.Run(ctx, w.Queue.store, t.Claim(), w.Strategy, w.Log)
		})
		if ctx.Err() != nil {
			return
		}
		w.Log.Warn("no longer the assigner of jobs", "error", err)
		if time.Since(began) > backoff.Max {
			failures = 1
		}
		backoff.Pause(ctx, backoff.After(failures, backoff.Min, backoff.Max))
	}
}

// runner is a worker while its Run lasts.
type runner struct {
	Worker
	slots chan struct{} // one for each job that runs

	mu sync.Mutex
	// by name of the assignment; one that has ended stays while that is there
	tries     map[string]*try
	cancelled map[job.ID]bool // somebody has asked for it
	over      bool            // no more jobs
	work      sync.WaitGroup
}

func newRunner(w Worker) *runner {
	return &runner{Worker: w, slots: make(chan struct{}, w.Capacity), tries: map[string]*try{}}
}

// follow runs what is assigned to this worker, under each ID that it has as a member, until ctx
// ends.
func (r *runner) follow(ctx context.Context, m *group.Membership) error {
	for {
		id, changed, err := m.ID()
		if err != nil {
			return fmt.Errorf("work for %s: %w", r.Queue.store.Group.Name(), err)
		}
		present, stop := context.WithCancel(ctx)
		var watching sync.WaitGroup
		if id != 0 {
			r.Log.Info("waiting for jobs", "worker", id.String())
			watching.Go(func() { r.followAssignments(present, id) })
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
		r.assigned(0, nil) // what the earlier member had is not this one's
	}
}

// followAssignments runs what is assigned to one member.
func (r *runner) followAssignments(ctx context.Context, id fence.Token) {
	r.keepWatching(ctx, "assignments", func(ctx context.Context) error {
		return r.Queue.store.Docs.WatchNames(ctx, r.Queue.store.Paths.Assigned(id),
			func(names []string) error {
				r.assigned(id, names)
				return nil
			})
	})
}

// followCancellations tells handlers that their jobs are cancelled.
func (r *runner) followCancellations(ctx context.Context) {
	r.keepWatching(ctx, "cancellations", func(ctx context.Context) error {
		return r.Queue.store.Docs.WatchNames(ctx, r.Queue.store.Paths.Cancellations(),
			func(names []string) error {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.cancelled = map[job.ID]bool{}
				for _, name := range names {
					r.cancelled[job.ID(name)] = true
				}
				for _, t := range r.tries {
					if r.cancelled[t.id] {
						t.cancel(ErrCancelled)
					}
				}
				return nil
			})
	})
}

// keepWatching watches until ctx ends.
func (r *runner) keepWatching(
	ctx context.Context, what string, watch func(context.Context) error,
) {
	for failures := 1; ctx.Err() == nil; failures++ {
		if err := watch(ctx); ctx.Err() == nil {
			r.Log.Warn("cannot watch "+what, "group", r.Queue.store.Group.Name(), "error", err)
			backoff.Pause(ctx, backoff.After(failures, backoff.Min, backoff.Max))
		}
	}
}

// assigned starts and stops tries, so that they are those that are assigned to a member.
func (r *runner) assigned(member fence.Token, names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := records.Set(names)
	for name, t := range r.tries {
		if t.worker != member || !there[name] {
			t.cancel(ErrTakenBack)
			delete(r.tries, name)
		}
	}
	for _, name := range names {
		id, attempt, ok := records.ParseAssignment(name)
		if !ok || r.over || r.tries[name] != nil {
			continue
		}
		t := &try{runner: r, id: id, attempt: attempt, worker: member}
		t.ctx, t.cancel = context.WithCancelCause(context.Background())
		if r.cancelled[id] {
			t.cancel(ErrCancelled)
		}
		r.tries[name] = t
		r.work.Go(t.run)
	}
}

// begin records that a handler is called, unless the worker stops.
func (r *runner) begin(t *try) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over && !t.begun {
		return ErrStopping
	}
	t.begun = true
	return nil
}

// stops reports whether the worker stops.
func (r *runner) stops() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over
}

// drain takes no more jobs, and waits for those that it has.
func (r *runner) drain(worker fence.Token) {
	r.mu.Lock()
	r.over = true
	running := 0
	for _, t := range r.tries {
		switch {
		case !t.begun:
			t.cancel(ErrStopping)
		case t.running != nil:
			running++
		}
	}
	r.mu.Unlock()
	if running > 0 {
		r.Log.Info("the worker stops; it waits for its jobs", "jobs", running, "at_most",
			r.Grace.String())
	}
	ended := make(chan struct{})
	go func() { defer close(ended); r.work.Wait() }()
	if worker != 0 {
		r.announce(worker)
	}
	grace := time.NewTimer(r.Grace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
	case <-r.EndGrace:
	}
	r.mu.Lock()
	for _, t := range r.tries {
		t.cancel(ErrStopping)
	}
	r.mu.Unlock()
	<-ended
	if worker != 0 {
		r.returnRest(worker)
	}
}

// announce tells the assigner that this worker takes no more jobs.
func (r *runner) announce(worker fence.Token) {
	ctx, cancel := context.WithTimeout(context.Background(), records.AnnounceTimeout)
	defer cancel()
	s := r.Queue.store
	if err := s.Create(ctx, s.Paths.Draining()+"/"+worker.String(), nil); err != nil {
		r.Log.Warn("could not announce the shutdown", "error", err)
	}
}

// returnRest gives back what was assigned to this worker and never begun.
func (r *runner) returnRest(worker fence.Token) {
	ctx, cancel := context.WithTimeout(context.Background(), records.AnnounceTimeout)
	defer cancel()
	names, err := r.Queue.store.Docs.Names(ctx, r.Queue.store.Paths.Assigned(worker))
	if err != nil {
		return // the assigner takes it back
	}
	for _, name := range names {
		if id, attempt, ok := records.ParseAssignment(name); ok {
			t := &try{runner: r, id: id, attempt: attempt, worker: worker}
			t.giveBack(nil)
		}
	}
}

// running returns the run of a job whose handler runs here, nil if there is none.
func (r *runner) running(id job.ID) *Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tries {
		if t.id == id && t.running != nil {
			return t.running
		}
	}
	return nil
}
