package jobstest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

func everyJobIsDone(s *stage) {
	const many = 60
	var ran tally
	for range 3 {
		s.works(jobs.Worker{Handlers: kinds(func(ctx context.Context, r *jobs.Run) (any, error) {
			ran.add(r.ID)
			if r.Term.Claim().Resource != r.Spec.Resource {
				s.Errorf("the term is of %s, the job's resource is %s", r.Term.Claim().Resource,
					r.Spec.Resource)
			}
			return echo(ctx, r)
		})})
	}
	ids := make([]job.ID, many)
	for i := range many {
		ids[i] = s.submit(job.Spec{Payload: number(i)})
	}
	for i, id := range ids {
		end := s.ends(id, job.Done)
		if string(end.Result) != fmt.Sprint(i) || end.Attempt != 1 || end.Token == 0 ||
			end.WorkerName == "" {
			s.Errorf("job %d: %+v", i, end)
		}
		if n := ran.add(id); n != 2 {
			s.Errorf("job %d ran %d times", i, n-1)
		}
	}
}

func jobWaitsForAWorker(s *stage) {
	id := s.submit(job.Spec{Payload: number(1)})
	if now, err := s.queue.Get(s.ctx, id); err != nil || now.State != job.Waiting {
		s.Errorf("%+v, %v", now, err)
	}
	s.works(jobs.Worker{Handlers: kinds(echo)})
	s.ends(id, job.Done)
}

func jobWaitsForItsTime(s *stage) {
	s.works(jobs.Worker{Handlers: kinds(echo)})
	due := time.Now().Add(time.Second)
	id := s.submit(job.Spec{NotBefore: due, Payload: number(1)})
	s.ends(s.submit(job.Spec{Payload: number(2)}), job.Done) // a later one does not wait behind it
	if end := s.ends(id, job.Done); end.Started.Before(due.Add(-10 * time.Millisecond)) {
		s.Errorf("due at %v, started at %v", due, end.Started)
	}
}

func priorityGoesFirst(s *stage) {
	low := s.submit(job.Spec{})
	high := s.submit(job.Spec{Priority: 9})
	older := s.submit(job.Spec{Priority: 5})
	time.Sleep(2 * time.Millisecond) // within a millisecond the order is any
	middle := s.submit(job.Spec{Priority: 5})
	var mu sync.Mutex
	var order []job.ID
	s.works(jobs.Worker{Capacity: 1,
		Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, r.ID)
			return nil, nil
		})})
	for _, id := range []job.ID{low, high, older, middle} {
		s.ends(id, job.Done)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []job.ID{high, older, middle, low}; fmt.Sprint(order) != fmt.Sprint(want) {
		s.Errorf("the order was %v, want %v", order, want)
	}
}

func capacityIsRespected(s *stage) {
	const capacity, many = 2, 12
	var now, most atomic.Int64
	g := s.gate()
	var ids []job.ID
	for range many { // before there is a worker, so that one change assigns as many as it may have
		ids = append(ids, s.submit(job.Spec{}))
	}
	s.works(jobs.Worker{Capacity: capacity,
		Handlers: kinds(func(ctx context.Context, r *jobs.Run) (any, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			return g.handler(ctx, r)
		})})
	for range capacity {
		g.next()
	}
	assigned := 0
	err := s.queue.List(s.ctx, func(status job.Status) error {
		if status.State == job.Assigned || status.State == job.Running {
			assigned++
		}
		return nil
	})
	if err != nil || assigned > capacity {
		s.Errorf("%d jobs are assigned to a worker for %d: %v", assigned, capacity, err)
	}
	close(g.leave)
	for _, id := range ids {
		s.ends(id, job.Done)
	}
	if most.Load() != capacity {
		s.Errorf("%d jobs ran at once, the capacity is %d", most.Load(), capacity)
	}
}

func labelsAndKinds(s *stage) {
	s.works(jobs.Worker{Name: "plain", Handlers: kinds(echo)})
	s.works(jobs.Worker{Name: "labelled", Labels: []string{"gpu", "zone=a"}, Handlers: kinds(echo)})
	s.works(jobs.Worker{Name: "other", Handlers: map[string]jobs.Handler{"other": echo}})
	nobody := s.submit(job.Spec{Labels: []string{"gpu", "zone=b"}})
	unknown := s.submit(job.Spec{Kind: "unknown"})
	for range 5 {
		id := s.submit(job.Spec{Labels: []string{"gpu"}})
		if end := s.ends(id, job.Done); end.WorkerName != "labelled" {
			s.Errorf("%s did a job for gpu", end.WorkerName)
		}
		id = s.submit(job.Spec{Kind: "other"})
		if end := s.ends(id, job.Done); end.WorkerName != "other" {
			s.Errorf("%s did a job of another kind", end.WorkerName)
		}
	}
	for _, id := range []job.ID{nobody, unknown} {
		s.state(id, job.Waiting)
	}
	s.works(jobs.Worker{Name: "late", Labels: []string{"zone=b", "gpu"}, Handlers: kinds(echo)})
	if end := s.ends(nobody, job.Done); end.WorkerName != "late" {
		s.Errorf("%s did it", end.WorkerName)
	}
}
