package assigner

import (
	"errors"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/internal/records"
	"github.com/ringfence/ringfence/jobs/job"
)

// cancelAsked cancels jobs that wait, and drops requests to cancel jobs that have ended. Workers
// cancel what they run.
func (a *assigner) cancelAsked() error {
	a.mu.Lock()
	names := slices.Clone(a.view.cancel)
	a.mu.Unlock()
	for _, name := range names {
		id, err := job.ParseID(name)
		if err != nil {
			continue
		}
		docs, err := a.q.Docs.Get(a.ctx, documents.At(a.q.Paths.Cancellation(id), a.q.Paths.Status(id)))
		if err != nil {
			return err
		}
		r, err := records.Parse(docs[1])
		if !docs[0].Exists() || err == nil && (r.State == job.Assigned || r.State == job.Running) {
			continue
		}
		writes := []documents.Write{documents.Delete(docs[0])}
		switch {
		case err == nil && r.State == job.Waiting:
			writes = append(writes, a.q.Changes.CancelNow(r, a.q.Now())...)
		case err == nil:
			// a request that is made once the job was retried may have the version of this one
			writes = append(writes, documents.Check(docs[1]))
		}
		_, err = a.q.Change(a.ctx, documents.Change{While: []fence.Claim{a.claim}, Writes: writes})
		if err != nil && !errors.Is(err, documents.ErrConflict) {
			return err
		}
	}
	return nil
}
