package jobstest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

func stoppingGivesBack(s *stage) {
	g := s.gate()
	first := s.works(jobs.Worker{Name: "first", Handlers: kinds(g.handler)})
	id := s.submit(job.Spec{})
	g.next()
	second := s.gate()
	close(second.leave)
	s.works(jobs.Worker{Name: "second", Handlers: kinds(second.handler)})
	first.stop()
	end := s.ends(id, job.Done)
	if end.WorkerName != "second" || end.Attempt != 2 || end.Failures != 0 || end.Lost != 0 {
		s.Errorf("%+v", end)
	}
}

// stoppingLeavesNothing has a worker come and go while nobody assigns.
func stoppingLeavesNothing(s *stage) {
	nobody, err := s.connect().Campaign(s.ctx, s.queue.Leader(), "nobody")
	must.Succeed(s, err)
	one := s.connect()
	s.eventually("one has said that it stops", func() bool { // once it knows its own ID
		s.worksAt(one, jobs.Worker{Handlers: kinds(echo)}).stop()
		return s.documents("draining") > 0
	})
	must.Succeed(s, nobody.Resign(s.ctx))
	s.works(jobs.Worker{Handlers: kinds(echo)})
	second := s.works(jobs.Worker{Handlers: kinds(echo)})
	s.eventually("two may have jobs", func() bool { return s.documents("workers") == 2 })
	second.stop()
	s.eventually("those that have stopped are forgotten", func() bool {
		return s.documents("draining") == 0 && s.documents("workers") == 1
	})
}

// stoppingHasGrace has one worker assign and another one stop.
func stoppingHasGrace(s *stage) {
	s.assigner("first")
	g := s.gate()
	second := s.works(jobs.Worker{Name: "second", Grace: s.f.patience, Handlers: kinds(g.handler)})
	id := s.submit(job.Spec{})
	g.next()
	second.cancel()
	s.eventually("it has said that it stops", func() bool { return s.documents("draining") > 0 })
	late := s.submit(job.Spec{Priority: 9})
	s.ends(s.submit(job.Spec{Kind: "none"}), job.Done) // both could have been assigned
	close(g.leave)
	<-second.ended
	if end := s.ends(id, job.Done); end.Attempt != 1 {
		s.Errorf("%+v", end)
	}
	s.works(jobs.Worker{Name: "third", Handlers: kinds(echo)})
	if end := s.ends(late, job.Done); end.WorkerName != "third" {
		s.Errorf("the worker that stopped took a job: %+v", end)
	}
}

// stoppingHurries has a worker wait for a job that does not end, with a grace that does not end
// either.
func stoppingHurries(s *stage) {
	g, hurry := s.gate(), make(chan struct{})
	first := s.works(jobs.Worker{Grace: 24 * time.Hour, EndGrace: hurry, Handlers: kinds(g.handler)})
	id := s.submit(job.Spec{})
	g.next()
	first.cancel()
	s.eventually("it has said that it stops", func() bool { return s.documents("draining") > 0 })
	close(hurry)
	limit := time.NewTimer(s.f.patience)
	defer limit.Stop()
	select {
	case <-first.ended:
	case <-limit.C:
		close(g.leave)
		s.Fatal("the grace goes on")
	}
	if now, err := s.queue.Get(s.ctx, id); err != nil || now.State != job.Waiting ||
		now.Failures > 0 {
		s.Errorf("%+v, %v", now, err)
	}
}

func goneWorkersJobs(s *stage) {
	g := s.gate()
	defer close(g.leave)
	first := s.works(jobs.Worker{Name: "first", Handlers: kinds(g.stubborn)})
	ids := []job.ID{s.submit(job.Spec{}), s.submit(job.Spec{})}
	for range ids {
		g.next()
	}
	s.works(jobs.Worker{Name: "second", Handlers: kinds(echo)})
	first.kill()
	for _, id := range ids {
		if end := s.ends(id, job.Done); end.WorkerName != "second" || end.Attempt != 2 || end.Lost != 1 {
			s.Errorf("%+v", end)
		}
	}
}

// keepsItsPlace has a job run on three workers, one after the other, while a younger one waits.
func keepsItsPlace(s *stage) {
	s.assigner("first")
	g := s.gate()
	works := func() *worker { return s.works(jobs.Worker{Capacity: 1, Handlers: kinds(g.handler)}) }
	k := works()
	older := s.submit(job.Spec{})
	g.next()
	time.Sleep(2 * time.Millisecond) // within a millisecond the order is any
	s.submit(job.Spec{})
	for i, leave := range []func(*worker){(*worker).stop, (*worker).kill} {
		leave(k)
		s.becomes(older, "waiting", func(now job.Status) bool { return now.State == job.Waiting })
		s.ends(s.submit(job.Spec{Kind: "none"}), job.Done) // the assigner has seen it wait
		k = works()
		if r := g.next(); r.ID != older {
			s.Errorf("after worker %d of the older job has left, the younger one goes first", i+1)
		}
	}
	close(g.leave)
	s.ends(older, job.Done)
}

// bothAreGone is about a worker that the assigner next has never assigned anything to.
func bothAreGone(s *stage) {
	first := s.assigner("first")
	g := s.gate()
	second := s.works(jobs.Worker{Name: "second", Handlers: kinds(g.stubborn)})
	id := s.submit(job.Spec{})
	g.next()
	s.works(jobs.Worker{Name: "third", Handlers: kinds(echo)})
	first.kill()
	second.kill()
	if end := s.ends(id, job.Done); end.WorkerName != "third" || end.Lost != 1 {
		s.Errorf("%+v", end)
	}
	close(g.leave)
}

func lostTooOften(s *stage) {
	if s.f.Expire == nil {
		s.Skip("the fixture has no Expire")
	}
	s.assigner("first")
	g := s.gate()
	fragile := s.works(jobs.Worker{Name: "fragile", Handlers: kinds(g.handler)})
	id := s.submit(job.Spec{Keep: twoDays})
	for lost := 0; lost <= job.MaxLost; {
		if r := g.next(); r.Attempt > lost { // otherwise it leads again before the job is taken back
			lost = r.Attempt
			s.f.Expire(s, fragile.at)
		}
	}
	end := s.ends(id, job.Failed)
	if end.Lost != job.MaxLost+1 || !strings.Contains(end.Error, "gone") {
		s.Errorf("%+v", end)
	}
	s.kept(end)
}

func zombiePublishesNothing(s *stage) {
	if s.f.Expire == nil {
		s.Skip("the fixture has no Expire")
	}
	g := s.gate()
	first := s.works(jobs.Worker{Name: "first", Handlers: kinds(g.stubborn)})
	id := s.submit(job.Spec{})
	g.next()
	h := s.gate()
	s.works(jobs.Worker{Name: "second", Handlers: kinds(h.handler)})
	s.f.Expire(s, first.at) // its handler goes on, as that of a paused process would
	var run *jobs.Run
	select {
	case run = <-h.entered:
	case again := <-g.entered: // the first worker is back, and it got the job
		s.Logf("attempt %d is the first worker's again", again.Attempt)
		close(g.leave)
		close(h.leave)
		s.ends(id, job.Done)
		return
	case <-s.ctx.Done():
		s.Fatal("nobody took the job")
	}
	close(g.leave) // the zombie returns a result
	time.Sleep(50 * time.Millisecond)
	if now, err := s.queue.Get(s.ctx, id); err != nil || now.State.Finished() ||
		now.Attempt != run.Attempt {
		s.Errorf("after the zombie's result: %+v, %v", now, err)
	}
	close(h.leave)
	if end := s.ends(id, job.Done); string(end.Result) != `"passed"` ||
		end.Token != run.Term.Token() {
		s.Errorf("%+v", end)
	}
}

func comesBack(s *stage) {
	if s.f.Expire == nil {
		s.Skip("the fixture has no Expire")
	}
	first := s.works(jobs.Worker{Name: "first", Handlers: kinds(echo)})
	before := s.ends(s.submit(job.Spec{Payload: number(1)}), job.Done)
	s.f.Expire(s, first.at)
	s.eventually("another ID", func() bool {
		all := s.members()
		return len(all) > 0 && all[len(all)-1].ID > before.Worker
	})
	if after := s.ends(s.submit(job.Spec{Payload: number(1)}),
		job.Done); after.Worker <= before.Worker {
		s.Errorf("the job went to worker %s, which is gone", after.Worker)
	}
}

func assignerIsGone(s *stage) {
	first := s.assigner("first")
	s.works(jobs.Worker{Name: "second", Handlers: kinds(echo)})
	s.ends(s.submit(job.Spec{Payload: number(1)}), job.Done)
	first.kill()
	s.ends(s.submit(job.Spec{Payload: number(2)}), job.Done)
	if got := s.leader(); got != "second" {
		s.Errorf("%q assigns", got)
	}
}

// assigner starts a worker for jobs of the kind none, and waits until it assigns.
func (s *stage) assigner(name string) *worker {
	s.Helper()
	return s.assignerAt(s.connect(), name)
}

// assignerAt is assigner with a client.
func (s *stage) assignerAt(c documents.Coordinator, name string) *worker {
	s.Helper()
	k := s.worksAt(c, jobs.Worker{Name: name, Handlers: map[string]jobs.Handler{"none": echo}})
	s.eventually(name+" assigns", func() bool { return s.leader() == name })
	return k
}

// leader returns the name of the worker that assigns.
func (s *stage) leader() string { s.Helper(); return s.leaderOf(s.queue.Leader()).Holder }

// stoppingBeginsNothing has a worker stop while a store raises the mark for a job.
func stoppingBeginsNothing(s *stage) {
	store := slowStore{make(chan struct{}), make(chan struct{})}
	s.assigner("first")
	second := s.works(jobs.Worker{
		Name: "second", Stores: []fence.Raiser{store}, Grace: s.f.patience,
		Handlers: kinds(func(context.Context, *jobs.Run) (any, error) {
			s.Error("a worker that stops has called a handler")
			return nil, nil
		}),
	})
	id := s.submit(job.Spec{})
	<-store.asked
	second.cancel()
	s.eventually("it has said that it stops", func() bool { return s.documents("draining") > 0 })
	close(store.leave)
	<-second.ended
	s.works(jobs.Worker{Name: "third", Handlers: kinds(echo)})
	if end := s.ends(id, job.Done); end.WorkerName != "third" {
		s.Errorf("%+v", end)
	}
}

// slowStore raises a mark when it is told to, whoever waits for that.
type slowStore struct{ asked, leave chan struct{} }

// Raise implements fence.Raiser.
func (r slowStore) Raise(context.Context, fence.Claim) error {
	close(r.asked)
	<-r.leave
	return nil
}

// manyKinds has a worker that says more about itself than a member can.
func manyKinds(s *stage) {
	const many = 60
	handlers, kind := map[string]jobs.Handler{}, ""
	for i := range many {
		kind = fmt.Sprintf("%0*d", job.MaxKind, i)
		handlers[kind] = echo
	}
	first := s.works(jobs.Worker{Name: "first", Handlers: handlers})
	second := s.works(jobs.Worker{Name: "second", Handlers: handlers}) // it says the same
	for range 2 {
		s.ends(s.submit(job.Spec{Kind: kind}), job.Done)
		first.stop() // the other one assigns now
	}
	o, err := s.view().Overview(s.ctx, 1)
	if err != nil || len(o.Workers) != 1 || len(o.Workers[0].Kinds) != many ||
		!o.Workers[0].Accepts(kind, nil) {
		s.Errorf("%+v, %v", o.Workers, err)
	}
	second.stop()
}
