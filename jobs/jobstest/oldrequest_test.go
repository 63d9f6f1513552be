package jobstest

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/jobs"
)

func TestAnOldRequestDoesNotCancelARetriedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { retryAfterACancellation(newStage(t, new(flaw).on())) })
}

// retryAfterACancellation is about a job that was cancelled while it ran, and is retried before the one
// who assigns has dropped the request.
func retryAfterACancellation(s *stage) {
	drops := func(c documents.Change) bool {
		return slices.ContainsFunc(c.Writes, func(w documents.Write) bool {
			return w.Kind == documents.KindDelete && strings.Contains(w.Path, "/cancel/")
		})
	}
	first := s.delays()
	first.hold(drops)
	s.worksAt(first, jobs.Worker{Name: "first", Handlers: map[string]jobs.Handler{"none": echo}})
	s.eventually("it assigns", func() bool { return s.leader() == "first" })
	g := s.gate()
	s.works(jobs.Worker{Name: "second", Handlers: kinds(g.handler)})
	id := s.submit(jobs.Spec{})
	g.next()
	if err := s.queue.Cancel(s.ctx, id); err != nil {
		s.Fatal(err)
	}
	s.ends(id, jobs.Cancelled)
	first.next() // never arrives
	if err := s.queue.Retry(s.ctx, id); err != nil {
		s.Fatal(err)
	}
	s.depose(s.queue.Leader())
	close(g.leave)
	s.ends(id, jobs.Done) // nobody has cancelled it since
}
