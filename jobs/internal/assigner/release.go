package assigner

import (
	"errors"
	"fmt"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// release takes back the jobs of workers that are gone.
func (a *assigner) release() error {
	a.mu.Lock()
	var gone []fence.Token
	for id := range a.workers {
		if _, there := a.view.members[id]; !there {
			gone = append(gone, id)
		}
	}
	a.mu.Unlock()
	for _, id := range gone {
		if err := a.releaseOne(id); err != nil {
			return err
		}
	}
	return nil
}

func (a *assigner) releaseOne(worker fence.Token) error {
	names, err := a.q.Docs.Names(a.ctx, a.q.Paths.Assigned(worker))
	if err != nil {
		return err
	}
	now := a.q.Now()
	err = a.steps(records.AssignedIn(names), chunk, func(r records.Record) []documents.Write {
		if r.Worker != worker || r.State != job.Assigned && r.State != job.Running {
			return nil
		}
		return a.q.Changes.TakeBack(r, now) // also one to be cancelled, which is done while it waits
	}, func(moved []job.ID, _ bool) {
		a.log.Warn("a worker is gone; its jobs wait again", "worker", worker.String(), "jobs", len(moved))
	})
	if err != nil {
		return err
	}
	left, err := a.q.Docs.Names(a.ctx, a.q.Paths.Assigned(worker))
	if err != nil || len(left) > 0 {
		return err // the next round tries again
	}
	a.mu.Lock()
	unsure := a.workers[worker].unsure
	a.mu.Unlock()
	if unsure {
		return fmt.Errorf("%w: worker %s is gone", errUnsure, worker)
	}
	return a.forgetWorker(worker)
}

// errUnsure ends a term. An assignment may still arrive at a worker that is gone, and nobody would
// look for it there once the worker is forgotten. In the next term it fails, because it names this
// one.
var errUnsure = errors.New("an assignment was not answered, so the next term forgets its worker")

// forgetWorker deletes what says that a worker may have assignments.
func (a *assigner) forgetWorker(id fence.Token) error {
	docs, err := a.q.Docs.Get(a.ctx,
		documents.At(a.q.Paths.Worker(id), a.q.Paths.Draining()+"/"+id.String()))
	if err != nil {
		return err
	}
	var writes []documents.Write
	for _, d := range docs {
		if d.Exists() {
			writes = append(writes, documents.Delete(d))
		}
	}
	if _, err := a.q.Docs.Change(a.ctx, documents.Change{
		While: []fence.Claim{a.claim}, Writes: writes,
	}); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.workers[id].stop()
	delete(a.workers, id)
	return nil
}
