package jobstest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs/job"
)

// The coordinator says that the key is taken, and cannot be reached when the client asks by whom.
func TestASubmissionFindsOutWhoHasItsKey(t *testing.T) {
	for lost := range 3 {
		t.Run(fmt.Sprint("reading ", lost+1, " is lost"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, new(flaw).on())
				first := s.submit(job.Spec{Unique: "key", NotBefore: time.Now().Add(time.Hour)})
				q := s.open(losesReading{s.connect(), int64(lost + 1), new(atomic.Int64)})
				if id, err := q.Submit(s.ctx, job.Spec{Kind: "job", Unique: "key"}); id != first ||
					err != nil {
					t.Errorf("%s has the key; another submission with it returns %q, %v", first, id, err)
				}
			})
		})
	}
}

// losesReading is a coordinator that does not answer one reading of documents.
type losesReading struct {
	documents.Coordinator
	lost  int64 // which one, from 1
	count *atomic.Int64
}

// Documents implements documents.Coordinator.
func (c losesReading) Documents() documents.Store {
	return losingStore{c.Coordinator.Documents(), c}
}

type losingStore struct {
	documents.Store
	c losesReading
}

// Get implements documents.Store.
func (s losingStore) Get(ctx context.Context, r documents.Read) ([]documents.Document, error) {
	if s.c.count.Add(1) == s.c.lost {
		return nil, fmt.Errorf("%w: no answer", documents.ErrUnreachable)
	}
	return s.Store.Get(ctx, r)
}
