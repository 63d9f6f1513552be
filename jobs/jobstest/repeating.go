package jobstest

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

func repeats(s *stage) {
	var ran tally
	s.works(jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		if r.Failure == 0 { // every round fails once
			return nil, errors.New("not yet")
		}
		if failed := ran.add(r.ID); r.Attempt != 2*failed {
			s.Errorf("round %d ends with attempt %d", failed, r.Attempt)
		}
		return r.Attempt, nil
	})})
	id := s.submit(job.Spec{Every: "1s", Retries: 1, Backoff: job.Duration(time.Millisecond)})
	twice := s.becomes(id, "at its third round", func(now job.Status) bool { return now.Rounds >= 2 })
	if twice.Attempt < 4 || twice.Failures > 1 || twice.State.Finished() {
		s.Errorf("%+v", twice)
	}
	if err := s.queue.Cancel(s.ctx, id); err != nil {
		s.Fatal(err)
	}
	s.eventually("it ends", func() bool {
		now, err := s.queue.Get(s.ctx, id)
		if err == nil && !now.State.Finished() {
			err = s.queue.Cancel(s.ctx, id)
		}
		return err == nil && now.State == job.Cancelled
	})
}
