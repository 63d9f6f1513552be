package jobstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// puts reports whether a change creates or replaces a document in one of the group's folders.
func puts(c documents.Change, folder string) bool {
	return slices.ContainsFunc(c.Writes, func(w documents.Write) bool {
		return w.Kind == documents.KindPut && strings.Contains(w.Path, "/"+folder+"/")
	})
}

// drops reports whether a change deletes a request to cancel a job.
func drops(c documents.Change) bool {
	return slices.ContainsFunc(c.Writes, func(w documents.Write) bool {
		return w.Kind == documents.KindDelete && strings.Contains(w.Path, "/cancel/")
	})
}

// lateAssignment is about an assignment that is sent by the leader of the group, and arrives when
// another worker is that. Nothing but the term tells them apart: the job still waits.
func lateAssignment(s *stage) {
	assigns := func(c documents.Change) bool { return puts(c, "assigned") }
	first, second := s.delays(), s.delays()
	first.hold(assigns)
	second.hold(assigns)
	s.assignerAt(first, "first")
	s.worksAt(second, jobs.Worker{Name: "second", Handlers: kinds(echo)})
	id := s.submit(job.Spec{Payload: number(1)})
	late := first.next()
	s.depose(s.queue.Leader())
	own := second.next() // it leads, and its first assignment is on its way
	if err := late.arrives(); !errors.Is(err, fence.ErrStale) && !shaken(err) {
		s.Errorf("the late assignment: %v", err)
	}
	if now, err := s.queue.Get(s.ctx, id); err != nil || now.State != job.Waiting {
		s.Errorf("after the late assignment: %+v, %v", now, err)
	}
	first.hold(nil)
	second.hold(nil) // before it can send the assignment again
	if err := own.arrives(); err != nil && !shaken(err) {
		s.Errorf("the assignment of the one who leads: %v", err)
	}
	if end := s.ends(id, job.Done); end.Attempt != 1 {
		s.Errorf("%+v", end)
	}
}

// unansweredAssignment is about an assignment that is not answered, and arrives when its worker is
// gone and forgotten. Nothing but the term stops it: the job still waits, as when it was sent.
func unansweredAssignment(s *stage) {
	d := s.delays()
	s.assignerAt(d, "first")
	second := s.works(jobs.Worker{Name: "second", Handlers: kinds(echo)})
	s.eventually("both are noted", func() bool { return s.documents("workers") == 2 })
	d.hold(func(c documents.Change) bool { return puts(c, "assigned") })
	id := s.submit(job.Spec{Payload: number(1)})
	late := d.next()
	second.stop()
	late.unanswered()
	s.eventually("the second one is forgotten", func() bool {
		d.unanswered() // sent before the assigner heard that the worker is gone
		return s.documents("workers") == 1
	})
	d.hold(nil)
	if err := late.arrives(); !errors.Is(err, fence.ErrStale) && !shaken(err) {
		s.Errorf("the late assignment: %v", err)
	}
	s.works(jobs.Worker{Name: "third", Handlers: kinds(echo)})
	if end := s.ends(id, job.Done); end.Attempt != 1 || end.WorkerName != "third" {
		s.Errorf("%+v", end)
	}
}

// lateDrop is about a request to cancel a job that has ended. It is dropped, which is not answered,
// and arrives when the job was retried, and is asked to end once more. In ZooKeeper the new request
// has the version of the old one.
func lateDrop(s *stage) {
	d, g := s.delays(), s.gate()
	d.hold(drops)
	s.assignerAt(d, "first")
	second := s.works(jobs.Worker{Handlers: kinds(func(context.Context, *jobs.Run) (any, error) {
		return nil, errors.New("as told")
	})})
	id := s.cancelLater(s.ends(s.submit(job.Spec{}), job.Failed).ID)
	late := d.next()
	second.stop()
	d.hold(nil)
	late.unanswered()
	s.eventually("the request is dropped", func() bool { return s.documents("cancel") == 0 })
	must.Succeed(s, s.queue.Retry(s.ctx, id))
	s.works(jobs.Worker{Handlers: kinds(g.stubborn)})
	g.next()
	must.Succeed(s, s.queue.Cancel(s.ctx, id))
	err := late.arrives() // on a bad network, the assigner may have lost its term
	if !errors.Is(err, documents.ErrConflict) && !errors.Is(err, fence.ErrStale) && !shaken(err) {
		s.Errorf("the late drop: %v", err)
	}
	close(g.leave)
	s.ends(id, job.Done) // it does not listen
}

// lateResult is about a result that is sent in a term, and arrives after it. Nothing but the term
// stops it: the job is still this worker's, in the same attempt, and has not started again.
func lateResult(s *stage) {
	var ran tally
	d := s.delays()
	d.hold(func(c documents.Change) bool { // the worker's own steps
		return puts(c, "statuses") && slices.ContainsFunc(c.While, func(claim fence.Claim) bool {
			return claim.Resource != s.queue.Leader()
		})
	})
	s.worksAt(d, jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		return ran.add(r.ID), nil
	})})
	id := s.submit(job.Spec{})
	for start := d.next().arrives(); start != nil; start = d.next().arrives() {
		if !shaken(start) {
			s.Fatal("the start: ", start)
		}
	}
	late := d.next()
	running := s.state(id, job.Running)
	s.depose(running.Resource)
	again := d.next() // the start in its next term
	if err := late.arrives(); !errors.Is(err, fence.ErrStale) && !shaken(err) {
		s.Errorf("the late result: %v", err)
	}
	if now, err := s.queue.Get(s.ctx, id); err != nil || now.State != job.Running ||
		now.Result != nil {
		s.Errorf("after the late result: %+v, %v", now, err)
	}
	d.hold(nil)
	if err := again.arrives(); err != nil && !shaken(err) {
		s.Errorf("the start in the next term: %v", err)
	}
	end := s.ends(id, job.Done)
	if string(end.Result) != "2" || end.Attempt != 1 || end.Token <= running.Token {
		s.Errorf("%+v", end)
	}
}

// shaken reports an error of a bad network, which Shaky makes. The change is sent again.
func shaken(err error) bool {
	return errors.Is(err, documents.ErrUnreachable) || errors.Is(err, documents.ErrUnknown)
}

// depose ends the term of the one who leads a resource, as an operator might.
func (s *stage) depose(r fence.Resource) {
	s.Helper()
	if gone, err := s.at.Depose(s.ctx, r, s.leaderOf(r).Token); err != nil || !gone {
		s.Fatal(fmt.Sprint("depose: ", gone, err))
	}
}
