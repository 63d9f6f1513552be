package jobstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// large is a result that is as large as it may be.
var large = strings.Repeat("x", job.MaxResult-2)

// failsFirst returns a handler that fails the first time, with a large result.
func failsFirst() jobs.Handler {
	var ran tally
	return func(_ context.Context, r *jobs.Run) (any, error) {
		if ran.add(r.ID) == 1 {
			return large, errors.New("as told")
		}
		return "at last", nil
	}
}

// Together, the statuses of these jobs are too large for one change.
func largeStatuses(s *stage) {
	const many = 30
	run := jobs.Worker{Capacity: many, Handlers: kinds(failsFirst())}
	first := s.works(run)
	var ids []job.ID
	for range many {
		ids = append(ids, s.submit(job.Spec{}))
	}
	for _, id := range ids {
		s.ends(id, job.Failed)
	}
	first.stop()
	for _, id := range ids {
		must.Succeed(s, s.queue.Retry(s.ctx, id))
	}
	s.works(run)
	for _, id := range ids {
		s.ends(id, job.Done)
	}
}

// The operator has lowered the coordinator's limit since the result was published.
func lowerLimit(s *stage) {
	var limit atomic.Int64
	limit.Store(1 << 20)
	run := jobs.Worker{Capacity: 1, Handlers: kinds(failsFirst())}
	first := s.worksAt(limited{s.connect(), &limit}, run)
	var ids []job.ID
	for range 3 {
		ids = append(ids, s.submit(job.Spec{}))
		s.ends(ids[len(ids)-1], job.Failed)
	}
	first.stop()
	for _, id := range ids[:2] {
		must.Succeed(s, s.queue.Retry(s.ctx, id))
	}
	limit.Store(job.MaxResult)
	waiting := s.cancelLater(ids[0])
	s.worksAt(limited{s.connect(), &limit}, run)
	s.ends(waiting, job.Cancelled)
	if end := s.ends(ids[1], job.Done); string(end.Result) != `"at last"` {
		s.Errorf("%.200v", end)
	}
	end := s.ends(s.submit(job.Spec{}), job.Failed)
	if len(end.Result) != 0 || !strings.Contains(end.Error, "as told; ") {
		s.Errorf("of a result that is too large: %.200v", end)
	}
}

func resultTooLarge(s *stage) {
	s.works(jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		if len(r.Spec.Payload) > 0 {
			return large + "x", errors.New("as told")
		}
		return large + "x", nil
	})})
	end := s.ends(s.submit(job.Spec{}), job.Done)
	if len(end.Result) != 0 || !strings.HasPrefix(end.Error, "the result is not kept: it has 100001 "+
		"bytes") {
		s.Errorf("%.200v", end)
	}
	failed := s.ends(s.submit(job.Spec{Payload: number(1)}), job.Failed)
	if !strings.HasPrefix(failed.Error, "as told; the result is not kept") {
		s.Errorf("%.200v", failed)
	}
}

// cancelLater leaves a request to cancel a job that waits, as one that came while it ran.
func (s *stage) cancelLater(id job.ID) job.ID {
	s.Helper()
	s.eventually("it is asked to end", func() bool {
		_, err := s.docs.Change(s.ctx, documents.Change{
			Writes: []documents.Write{documents.Create("jobs/"+s.name+"/cancel/"+string(id), nil)},
		})
		return err == nil || errors.Is(err, documents.ErrConflict)
	})
	return id
}

// limited is a coordinator that takes so many bytes at most in one change.
type limited struct {
	documents.Coordinator
	most *atomic.Int64
}

// Documents implements documents.Coordinator.
func (l limited) Documents() documents.Store {
	return limitedStore{l.Coordinator.Documents(), l.most}
}

type limitedStore struct {
	documents.Store
	most *atomic.Int64
}

// Change implements documents.Store.
func (l limitedStore) Change(ctx context.Context, c documents.Change) ([]int64, error) {
	bytes := int64(0)
	for _, w := range c.Writes {
		bytes += int64(len(w.Data))
	}
	if bytes > l.most.Load() {
		return nil, fmt.Errorf("%w: %d bytes", documents.ErrTooLarge, bytes)
	}
	return l.Store.Change(ctx, c)
}
