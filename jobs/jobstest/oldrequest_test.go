package jobstest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

func TestAnOldRequestDoesNotCancelARetriedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { retryAfterACancellation(newStage(t, new(flaw).on())) })
}

// retryAfterACancellation is about a job that has failed before its worker heard of a request to
// cancel it, and is retried before the assigner has dropped the request.
func retryAfterACancellation(s *stage) {
	first := s.delays()
	first.hold(drops)
	s.assignerAt(first, "first")
	g, word := s.gate(), make(chan struct{})
	s.worksAt(lateWatch{s.connect(), 0, word}, jobs.Worker{Name: "second", Handlers: kinds(
		func(ctx context.Context, r *jobs.Run) (any, error) {
			if r.Attempt == 1 {
				_, _ = g.stubborn(ctx, r)
				return nil, errors.New("as told")
			}
			return nil, nil
		},
	)})
	id := s.submit(job.Spec{})
	g.next()
	must.Succeed(s, s.queue.Cancel(s.ctx, id))
	close(g.leave)
	s.ends(id, job.Failed)
	first.next() // never arrives
	must.Succeed(s, s.queue.Retry(s.ctx, id))
	close(word)
	s.depose(s.queue.Leader())
	s.ends(id, job.Done) // nobody has cancelled it since
}

func TestAWorkerThatHearsOfAnOldRequestCancelsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { lateWord(newStage(t, new(flaw).on())) })
}

// lateWord is about a worker whose watch still shows a request to cancel when the job has come back
// to it.
func lateWord(s *stage) {
	s.assigner("first")
	g, word := s.gate(), make(chan struct{})
	s.worksAt(lateWatch{s.connect(), 1, word}, jobs.Worker{Name: "second", Handlers: kinds(g.handler)})
	id := s.submit(job.Spec{})
	g.next()
	must.Succeed(s, s.queue.Cancel(s.ctx, id))
	s.ends(id, job.Cancelled)
	must.Succeed(s, s.queue.Retry(s.ctx, id))
	s.eventually("it is given back", func() bool {
		now, err := s.queue.Get(s.ctx, id)
		if err != nil || now.State.Finished() {
			s.Fatalf("nobody has cancelled it since: %+v, %v", now, err)
		}
		return now.ReturnedBy != 0
	})
	close(word)
	close(g.leave)
	s.ends(id, job.Done)
}

// lateWatch is a coordinator whose watches of requests to cancel show some of the lists that have
// one, and nothing more before word is closed.
type lateWatch struct {
	documents.Coordinator
	shows int
	word  <-chan struct{}
}

// Documents implements documents.Coordinator.
func (c lateWatch) Documents() documents.Store { return lateStore{c.Coordinator.Documents(), c} }

type lateStore struct {
	documents.Store
	c lateWatch
}

// WatchNames implements documents.Store.
func (s lateStore) WatchNames(ctx context.Context, folder string, each func([]string) error) error {
	if !strings.HasSuffix(folder, "/cancel") {
		return s.Store.WatchNames(ctx, folder, each)
	}
	shown := 0
	return s.Store.WatchNames(ctx, folder, func(names []string) error {
		if shown == s.c.shows && (len(names) > 0 || shown > 0) {
			select {
			case <-s.c.word:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if len(names) > 0 {
			shown++
		}
		return each(names)
	})
}
