package jobstest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/jobs"
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
	ids := make([]jobs.ID, many)
	for i := range many {
		ids[i] = s.submit(jobs.Spec{Payload: number(i)})
	}
	for i, id := range ids {
		end := s.ends(id, jobs.Done)
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
	id := s.submit(jobs.Spec{Payload: number(1)})
	if now, err := s.queue.Get(s.ctx, id); err != nil || now.State != jobs.Waiting {
		s.Errorf("%+v, %v", now, err)
	}
	s.works(jobs.Worker{Handlers: kinds(echo)})
	s.ends(id, jobs.Done)
}

func jobWaitsForItsTime(s *stage) {
	s.works(jobs.Worker{Handlers: kinds(echo)})
	due := time.Now().Add(time.Second)
	id := s.submit(jobs.Spec{NotBefore: due, Payload: number(1)})
	s.ends(s.submit(jobs.Spec{Payload: number(2)}), jobs.Done) // a later one does not wait behind it
	if end := s.ends(id, jobs.Done); end.Started.Before(due.Add(-10 * time.Millisecond)) {
		s.Errorf("due at %v, started at %v", due, end.Started)
	}
}

func priorityGoesFirst(s *stage) {
	low := s.submit(jobs.Spec{})
	high := s.submit(jobs.Spec{Priority: 9})
	older := s.submit(jobs.Spec{Priority: 5})
	time.Sleep(2 * time.Millisecond) // within a millisecond the order is any
	middle := s.submit(jobs.Spec{Priority: 5})
	var mu sync.Mutex
	var order []jobs.ID
	s.works(jobs.Worker{Capacity: 1,
		Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, r.ID)
			return nil, nil
		})})
	for _, id := range []jobs.ID{low, high, older, middle} {
		s.ends(id, jobs.Done)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []jobs.ID{high, older, middle, low}; fmt.Sprint(order) != fmt.Sprint(want) {
		s.Errorf("the order was %v, want %v", order, want)
	}
}

func capacityIsRespected(s *stage) {
	const capacity, many = 2, 12
	var now, most atomic.Int64
	g := s.gate()
	var ids []jobs.ID
	for range many { // before there is a worker, so that one change assigns as many as it may have
		ids = append(ids, s.submit(jobs.Spec{}))
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
	err := s.queue.List(s.ctx, func(status jobs.Status) error {
		if status.State == jobs.Assigned || status.State == jobs.Running {
			assigned++
		}
		return nil
	})
	if err != nil || assigned > capacity {
		s.Errorf("%d jobs are assigned to a worker for %d: %v", assigned, capacity, err)
	}
	close(g.leave)
	for _, id := range ids {
		s.ends(id, jobs.Done)
	}
	if most.Load() != capacity {
		s.Errorf("%d jobs ran at once, the capacity is %d", most.Load(), capacity)
	}
}

func labelsAndKinds(s *stage) {
	s.works(jobs.Worker{Name: "plain", Handlers: kinds(echo)})
	s.works(jobs.Worker{Name: "labelled", Labels: []string{"gpu", "zone=a"}, Handlers: kinds(echo)})
	s.works(jobs.Worker{Name: "other", Handlers: map[string]jobs.Handler{"other": echo}})
	nobody := s.submit(jobs.Spec{Labels: []string{"gpu", "zone=b"}})
	unknown := s.submit(jobs.Spec{Kind: "unknown"})
	for range 5 {
		id := s.submit(jobs.Spec{Labels: []string{"gpu"}})
		if end := s.ends(id, jobs.Done); end.WorkerName != "labelled" {
			s.Errorf("%s did a job for gpu", end.WorkerName)
		}
		id = s.submit(jobs.Spec{Kind: "other"})
		if end := s.ends(id, jobs.Done); end.WorkerName != "other" {
			s.Errorf("%s did a job of another kind", end.WorkerName)
		}
	}
	for _, id := range []jobs.ID{nobody, unknown} {
		s.state(id, jobs.Waiting)
	}
	s.works(jobs.Worker{Name: "late", Labels: []string{"zone=b", "gpu"}, Handlers: kinds(echo)})
	if end := s.ends(nobody, jobs.Done); end.WorkerName != "late" {
		s.Errorf("%s did it", end.WorkerName)
	}
}
