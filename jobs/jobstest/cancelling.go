package jobstest

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/jobs"
)

func waitingIsCancelled(s *stage) {
	id := s.submit(jobs.Spec{Unique: "key"})
	if err := s.queue.Cancel(s.ctx, id); err != nil {
		s.Fatal(err)
	}
	if now, err := s.queue.Get(s.ctx, id); err != nil || now.State != jobs.Cancelled {
		s.Errorf("%+v, %v", now, err)
	}
	if err := s.queue.Cancel(s.ctx, id); !errors.Is(err, jobs.ErrWrongState) {
		s.Errorf("cancelled again: %v", err)
	}
	s.works(jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		if r.ID == id {
			s.Error("a cancelled job runs")
		}
		return nil, nil
	})})
	s.ends(s.submit(jobs.Spec{Unique: "key"}), jobs.Done)
}

func runningIsCancelled(s *stage) {
	g := s.gate()
	s.works(jobs.Worker{Handlers: kinds(g.handler)})
	id := s.submit(jobs.Spec{Retries: 5})
	g.next()
	for range 2 {
		if err := s.queue.Cancel(s.ctx, id); err != nil && !errors.Is(err, jobs.ErrWrongState) {
			s.Fatal(err)
		}
	}
	s.ends(id, jobs.Cancelled)
	// One that ends in spite of it is done.
	h := s.gate()
	s.works(jobs.Worker{Handlers: map[string]jobs.Handler{"stubborn": h.stubborn}})
	id = s.submit(jobs.Spec{Kind: "stubborn"})
	h.next()
	if err := s.queue.Cancel(s.ctx, id); err != nil {
		s.Fatal(err)
	}
	close(h.leave)
	s.ends(id, jobs.Done)
}
