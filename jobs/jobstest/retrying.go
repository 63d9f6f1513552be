package jobstest

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

func retryByHand(s *stage) {
	var ran tally
	s.works(jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		if ran.add(r.ID) == 1 {
			return nil, errors.New("not yet")
		}
		return nil, nil
	})})
	id := s.submit(job.Spec{Unique: "key"})
	s.ends(id, job.Failed)
	must.Succeed(s, s.queue.Retry(s.ctx, id))
	s.ends(id, job.Done)
	if err := s.queue.Retry(s.ctx, id); !errors.Is(err, job.ErrWrongState) {
		s.Errorf("a job that is done: %v", err)
	}
}

func retryOfATakenKey(s *stage) {
	s.works(jobs.Worker{Handlers: kinds(func(context.Context, *jobs.Run) (any, error) {
		return nil, errors.New("as told")
	})})
	id := s.submit(job.Spec{Unique: "key"})
	s.ends(id, job.Failed)
	other := s.submit(job.Spec{Unique: "key", NotBefore: time.Now().Add(time.Hour)})
	if err := s.queue.Retry(s.ctx, id); !errors.Is(err, job.ErrTaken) {
		s.Errorf("its key is that of %s: %v", other, err)
	}
	must.Succeed(s, s.queue.Cancel(s.ctx, other))
	if err := s.queue.Retry(s.ctx, id); err != nil {
		s.Errorf("its key is free again: %v", err)
	}
}
