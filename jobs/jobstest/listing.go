package jobstest

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

func finishedIsForgotten(s *stage) {
	s.works(jobs.Worker{Handlers: kinds(echo)})
	id := s.submit(job.Spec{Keep: job.Duration(time.Millisecond), Payload: number(1)})
	kept := s.submit(job.Spec{Payload: number(1)})
	s.eventually("it is forgotten", func() bool {
		_, err := s.queue.Get(s.ctx, id)
		return errors.Is(err, job.ErrNotFound)
	})
	if _, err := s.queue.Spec(s.ctx, id); !errors.Is(err, job.ErrNotFound) {
		s.Errorf("its spec: %v", err)
	}
	s.ends(kept, job.Done)
}

// bytesAreBounded ends jobs with more bytes than a group keeps. The first of them are forgotten,
// long before their time.
func bytesAreBounded(s *stage) {
	const fit = job.MaxFinishedBytes / job.MaxResult
	const many = fit + 20
	s.works(jobs.Worker{Capacity: 8, Handlers: kinds(func(context.Context, *jobs.Run) (any, error) {
		return large, nil
	})})
	for range many {
		s.submit(job.Spec{})
	}
	s.eventually("all have ended, and enough of them are forgotten", func() bool {
		return s.documents("waiting") == 0 && s.documents("finished") == s.documents("statuses") &&
			s.documents("finished") <= fit
	})
	if kept := s.documents("finished"); kept < fit*9/10 {
		s.Errorf("only %d jobs are kept, and %d fit", kept, fit)
	}
}

func jobsAreListed(s *stage) {
	var want []job.ID
	for range 20 {
		want = append(want, s.submit(job.Spec{}))
	}
	var got []job.ID
	err := s.queue.List(s.ctx, func(status job.Status) error {
		got = append(got, status.ID)
		return nil
	})
	if err != nil || len(got) != len(want) {
		s.Fatalf("%d of %d jobs, %v", len(got), len(want), err)
	}
	for _, id := range want {
		if spec, err := s.queue.Spec(s.ctx, id); err != nil || spec.Kind != "job" {
			s.Errorf("%+v, %v", spec, err)
		}
	}
}
