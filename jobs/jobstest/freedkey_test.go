package jobstest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/job"
)

// The coordinator says that the key is taken, and the job that has it ends before the client asks
// which one it is.
func TestASubmissionWhoseKeyBecomesFreeIsHandedIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, new(flaw).on())
		first := s.submit(job.Spec{Unique: "key", NotBefore: time.Now().Add(time.Hour)})
		q := s.open(hearsConflicts{s.connect(), func() {
			if err := s.queue.Cancel(s.ctx, first); err != nil {
				t.Error(err)
			}
		}})
		id, err := q.Submit(s.ctx, job.Spec{Kind: "job", Unique: "key"})
		if err != nil || id == first {
			t.Fatalf("%q, %v", id, err)
		}
		if status, err := q.Get(s.ctx, id); err != nil || status.Unique != "key" {
			t.Errorf("job %q: %+v, %v", id, status, err)
		}
	})
}

// hearsConflicts is a coordinator that calls a function after each change that met another version.
type hearsConflicts struct {
	documents.Coordinator
	heard func()
}

// Documents implements documents.Coordinator.
func (c hearsConflicts) Documents() documents.Store {
	return conflictingStore{c.Coordinator.Documents(), c.heard}
}

type conflictingStore struct {
	documents.Store
	heard func()
}

// Change implements documents.Store.
func (s conflictingStore) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	versions, err := s.Store.Change(ctx, c)
	if errors.Is(err, documents.ErrConflict) {
		s.heard()
	}
	return versions, err
}
