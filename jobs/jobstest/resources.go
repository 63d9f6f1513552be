package jobstest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// oneResourceAtATime has jobs of two groups share a resource. Within a group, the assigner hands
// them out one after the other anyway.
func oneResourceAtATime(s *stage) {
	var inside, runs atomic.Int64
	var last atomic.Int64 // the token
	other := *s
	other.name += "b"
	other.queue = other.open(s.connect())
	groups := []*stage{s, &other}
	for _, g := range groups {
		g.works(jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
			if inside.Add(1) != 1 {
				s.Error("two jobs with one resource run at once")
			}
			defer inside.Add(-1)
			if before := last.Swap(int64(r.Term.Token())); before >= int64(r.Term.Token()) {
				s.Errorf("token %v follows %d", r.Term.Token(), before)
			}
			time.Sleep(2 * time.Millisecond)
			runs.Add(1)
			return nil, nil
		})})
	}
	ids := map[*stage][]job.ID{}
	for range 5 {
		for _, g := range groups {
			ids[g] = append(ids[g], g.submit(job.Spec{Resource: fence.Resource(s.name + "_r")}))
		}
	}
	for _, g := range groups {
		for _, id := range ids[g] {
			g.ends(id, job.Done)
		}
	}
	if runs.Load() != 10 {
		s.Errorf("%d runs of 10 jobs", runs.Load())
	}
}

// takenResource has a job wait for one with its resource, while there is room for one more job.
func takenResource(s *stage) {
	g := s.gate()
	s.works(jobs.Worker{
		Capacity: 2, Handlers: map[string]jobs.Handler{"job": echo, "long": g.handler},
	})
	r := fence.Resource(s.name + "_r")
	long := s.submit(job.Spec{Kind: "long", Resource: r})
	g.next()
	s.othersPass(g, r, long)
}

// othersPass submits jobs with a taken resource and others, of which only the others must be done
// until the one that has it ends.
func (s *stage) othersPass(g *gate, r fence.Resource, long job.ID) {
	s.Helper()
	var behind []job.ID
	for range 5 {
		behind = append(behind, s.submit(job.Spec{Resource: r, Priority: 9}))
	}
	for range 3 {
		s.ends(s.submit(job.Spec{}), job.Done)
	}
	for _, id := range behind {
		if now, err := s.queue.Get(s.ctx, id); err != nil || now.State != job.Waiting ||
			now.Attempt != 0 {
			s.Errorf("its resource is taken: %+v, %v", now, err)
		}
	}
	close(g.leave)
	for _, id := range append(behind, long) {
		s.ends(id, job.Done)
	}
}

func takenResourceOfAPredecessor(s *stage) {
	first := s.assigner("first")
	g := s.gate()
	s.works(jobs.Worker{Name: "second", Capacity: 2, Handlers: map[string]jobs.Handler{
		"job": echo, "long": g.handler,
	}})
	r := fence.Resource(s.name + "_r")
	long := s.submit(job.Spec{Kind: "long", Resource: r})
	g.next()
	first.stop()
	s.othersPass(g, r, long)
}

// sharedOneByOne has several jobs with one resource wait when a worker comes.
func sharedOneByOne(s *stage) {
	r := fence.Resource(s.name + "_r")
	var ids []job.ID
	for range 3 {
		ids = append(ids, s.submit(job.Spec{Kind: "long", Resource: r}))
	}
	g := s.gate()
	s.works(jobs.Worker{
		Capacity: 8, Handlers: map[string]jobs.Handler{"job": echo, "long": g.handler},
	})
	first := g.next().ID
	s.ends(s.submit(job.Spec{}), job.Done)
	for _, id := range ids {
		if now, err := s.queue.Get(s.ctx, id); err != nil || id != first && now.Attempt != 0 {
			s.Errorf("its resource is taken: %+v, %v", now, err)
		}
	}
	close(g.leave)
	for _, id := range ids {
		s.ends(id, job.Done)
	}
}
