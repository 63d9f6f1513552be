package jobstest

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// keepsItsResource has a job fail until it is tried again by hand, while others come and go.
func keepsItsResource(s *stage) {
	var ran tally
	leads := make(chan fence.Resource, 10)
	s.works(jobs.Worker{Handlers: map[string]jobs.Handler{
		"job": echo,
		"late": func(_ context.Context, r *jobs.Run) (any, error) {
			leads <- r.Term.Claim().Resource
			if ran.add(r.ID) < 3 {
				return nil, errors.New("not yet")
			}
			return nil, nil
		},
	}})
	id := s.submit(job.Spec{Kind: "late", Retries: 1, Backoff: job.Duration(time.Millisecond)})
	failed := s.ends(id, job.Failed)
	for range 20 {
		if other := s.ends(s.submit(job.Spec{}), job.Done); other.Resource == failed.Resource {
			s.Errorf("another job has the resource of one that can be tried again: %+v", other)
		}
	}
	must.Succeed(s, s.queue.Retry(s.ctx, id))
	s.ends(id, job.Done)
	for range 3 {
		if got := <-leads; got != failed.Resource {
			s.Errorf("a try leads %s, another one %s", got, failed.Resource)
		}
	}
}

// resourcesAreUsedAgain runs many jobs, of which few run at once.
func resourcesAreUsedAgain(s *stage) {
	s.works(jobs.Worker{Handlers: kinds(echo)})
	used, many := map[fence.Resource]int{}, 60
	for range many {
		used[s.ends(s.submit(job.Spec{}), job.Done).Resource]++
	}
	if len(used) > many/2 {
		s.Errorf("%d jobs, one after the other, have led %d resources: %v", many, len(used), used)
	}
	s.eventually("no job has a resource", func() bool { return s.documents("resources") == 0 })
}

// cleansUp has jobs be forgotten that have ended well and badly.
func cleansUp(s *stage) {
	ended, cleaned := map[job.ID]job.Status{}, make(chan *jobs.Run, 10)
	keep := job.Duration(time.Millisecond)
	s.works(jobs.Worker{Handlers: map[string]jobs.Handler{
		"good": echo,
		"bad":  func(context.Context, *jobs.Run) (any, error) { return nil, errors.New("as told") },
		"sweep": func(_ context.Context, r *jobs.Run) (any, error) {
			cleaned <- r
			return nil, nil
		},
	}})
	for kind, state := range map[string]job.State{"good": job.Done, "bad": job.Failed} {
		id := s.submit(job.Spec{Kind: kind, Payload: number(1), Keep: keep, CleanUp: "sweep"})
		ended[id] = s.ends(id, state)
	}
	for range ended {
		s.cleanedAfter(ended, cleaned)
	}
	s.eventually("nothing is left of them", func() bool {
		return s.documents("resources") == 0 && s.documents("statuses") == len(ended)
	})
	select {
	case r := <-cleaned:
		s.Errorf("a clean-up too many: %s", r.Spec.Payload)
	default:
	}
}

// cleanedAfter checks the next clean-up, of one of these jobs.
func (s *stage) cleanedAfter(ended map[job.ID]job.Status, cleaned <-chan *jobs.Run) {
	s.Helper()
	var r *jobs.Run
	select {
	case r = <-cleaned:
	case <-s.ctx.Done():
		s.Fatal("no clean-up")
	}
	var of job.Status
	must.Succeed(s, r.Decode(&of))
	was, known := ended[of.ID]
	claim := r.Term.Claim()
	if !known || of.State != was.State || claim.Resource != was.Resource || claim.Token <= was.Token {
		s.Errorf("a clean-up of %+v leads %s; the job was %+v", of, claim, was)
	}
	if err := s.queue.Retry(s.ctx, of.ID); !errors.Is(err, job.ErrNotFound) {
		s.Errorf("a job after its clean-up has begun: %v", err)
	}
}
