package assigner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// worker is one member's assignments.
type worker struct {
	listed map[string]bool // what the watch has shown
	known  bool            // it has shown something
	// just assigned; no watch or reading has shown it since this time
	pending   map[string]time.Time
	resources map[string]fence.Resource // by assignment: the job's
	unsure    bool                      // an assignment to it was not answered in this term
	stop      context.CancelFunc        // of the watch
}

func newWorker() *worker {
	return &worker{
		listed: map[string]bool{}, pending: map[string]time.Time{},
		resources: map[string]fence.Resource{},
	}
}

// load is how many jobs it has.
func (w *worker) load() int {
	n := len(w.listed)
	for id := range w.pending {
		if !w.listed[id] {
			n++
		}
	}
	return n
}

// trackListed tracks the workers that may have assignments by what an assigner has noted, this one
// or an earlier one.
func (a *assigner) trackListed() error {
	names, err := a.q.Docs.Names(a.ctx, a.q.Paths.Workers())
	if err != nil {
		return err
	}
	for _, name := range names {
		if id, err := fence.ParseToken(name); err == nil {
			a.track(id)
		}
	}
	return nil
}

// track watches the assignments of a worker, once. The caller holds no lock.
func (a *assigner) track(id fence.Token) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.workers[id] != nil {
		return
	}
	ctx, stop := context.WithCancel(a.ctx)
	w := newWorker()
	w.stop = stop
	a.workers[id] = w
	a.group.Go(func() error {
		err := a.q.Docs.WatchNames(ctx, a.q.Paths.Assigned(id), func(names []string) error {
			a.update(func() { w.show(names) })
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
}

// show takes over what the watch has shown.
func (w *worker) show(names []string) {
	w.known = true
	clear(w.listed)
	for _, name := range names {
		w.listed[name] = true
		delete(w.pending, name)
	}
	w.forgetResources()
}

// forgetResources forgets the resources of assignments that are over.
func (w *worker) forgetResources() {
	maps.DeleteFunc(w.resources, func(name string, _ fence.Resource) bool {
		_, pending := w.pending[name]
		return !pending && !w.listed[name]
	})
}

// lookUp finds out which resources the jobs have that a predecessor has assigned.
func (a *assigner) lookUp() error {
	unknown := map[job.ID]*worker{}
	names := map[job.ID]string{} // of the assignments
	a.mu.Lock()
	for _, w := range a.workers {
		for name := range w.listed {
			_, known := w.resources[name]
			if id, _, ok := records.ParseAssignment(name); ok && !known {
				unknown[id], names[id] = w, name
			}
		}
	}
	a.mu.Unlock()
	for some := range slices.Chunk(slices.Collect(maps.Keys(unknown)), records.ListPage) {
		docs, err := a.q.Statuses(a.ctx, some)
		if err != nil {
			return err
		}
		a.mu.Lock()
		for i, id := range some {
			r, _ := records.Parse(docs[i]) // one that is gone has none
			unknown[id].resources[names[id]] = r.Resource
			unknown[id].forgetResources() // it may have ended meanwhile
		}
		a.mu.Unlock()
	}
	return nil
}

// enlist notes durably which members may be assigned jobs, before the first one is.
func (a *assigner) enlist() error {
	a.mu.Lock()
	var fresh []fence.Token
	for id, m := range a.view.members {
		if a.workers[id] == nil && records.ParseOffer(m).Capacity > 0 {
			fresh = append(fresh, id)
		}
	}
	a.mu.Unlock()
	for _, id := range fresh {
		_, err := a.q.Docs.Change(a.ctx, documents.Change{
			While:  []fence.Claim{a.claim},
			Writes: []documents.Write{documents.Create(a.q.Paths.Worker(id), nil)},
		})
		if err != nil && !errors.Is(err, documents.ErrConflict) { // it is there: an answer was lost
			return err
		}
		a.track(id)
	}
	return nil
}

// refresh reads the assignments of workers whose watch has not shown what was assigned a while ago.
// A job that was quick has ended in between, and the watch has merged both changes.
func (a *assigner) refresh() error {
	a.mu.Lock()
	var late []fence.Token
	for id, w := range a.workers {
		for _, since := range w.pending {
			if time.Since(since) >= unseen {
				late = append(late, id)
				break
			}
		}
	}
	for name, since := range a.assigned {
		if time.Since(since) > settle {
			delete(a.assigned, name)
		}
	}
	a.mu.Unlock()
	for _, id := range late {
		names, err := a.q.Docs.Names(a.ctx, a.q.Paths.Assigned(id))
		if err != nil {
			return err
		}
		a.mu.Lock()
		a.workers[id].prune(records.Set(names))
		a.mu.Unlock()
	}
	return nil
}

// prune takes over a reading that began after all that is pending was assigned: what it does not
// show has ended. What it does show stays pending until the watch, which may lag behind, has got
// there.
func (w *worker) prune(there map[string]bool) {
	for name := range w.pending {
		if there[name] {
			w.pending[name] = time.Now()
		} else {
			delete(w.pending, name)
		}
	}
	w.forgetResources()
}
