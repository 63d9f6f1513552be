package jobstest

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

func waitingIsCancelled(s *stage) {
	id := s.submit(job.Spec{Unique: "key"})
	must.Succeed(s, s.queue.Cancel(s.ctx, id))
	if now, err := s.queue.Get(s.ctx, id); err != nil || now.State != job.Cancelled {
		s.Errorf("%+v, %v", now, err)
	}
	if err := s.queue.Cancel(s.ctx, id); !errors.Is(err, job.ErrWrongState) {
		s.Errorf("cancelled again: %v", err)
	}
	s.works(jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		if r.ID == id {
			s.Error("a cancelled job runs")
		}
		return nil, nil
	})})
	s.ends(s.submit(job.Spec{Unique: "key"}), job.Done)
}

func runningIsCancelled(s *stage) {
	g := s.gate()
	s.works(jobs.Worker{Handlers: kinds(g.handler)})
	id := s.submit(job.Spec{Retries: 5})
	g.next()
	for range 2 {
		if err := s.queue.Cancel(s.ctx, id); err != nil && !errors.Is(err, job.ErrWrongState) {
			s.Fatal(err)
		}
	}
	s.ends(id, job.Cancelled)
	// One that ends in spite of it is done.
	h := s.gate()
	s.works(jobs.Worker{Handlers: map[string]jobs.Handler{"stubborn": h.stubborn}})
	id = s.submit(job.Spec{Kind: "stubborn"})
	h.next()
	must.Succeed(s, s.queue.Cancel(s.ctx, id))
	close(h.leave)
	s.ends(id, job.Done)
}
