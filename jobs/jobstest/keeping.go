package jobstest

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// twoDays is how long some jobs want to be kept.
const twoDays = job.Duration(48 * time.Hour)

// kept checks how long a job that has ended is kept.
func (s *stage) kept(end job.Status) {
	s.Helper()
	if got := end.Expires.Sub(end.Ended); got != time.Duration(twoDays) {
		s.Errorf("a job that is %s is kept for %s, want %s", end.State, got, time.Duration(twoDays))
	}
}

func keptAsItSays(s *stage) {
	waits := s.submit(job.Spec{Keep: twoDays})
	must.Succeed(s, s.queue.Cancel(s.ctx, waits))
	s.kept(s.ends(waits, job.Cancelled))
	g := s.gate()
	s.works(jobs.Worker{Handlers: kinds(func(ctx context.Context, r *jobs.Run) (any, error) {
		if len(r.Spec.Payload) > 0 {
			return nil, errors.New("as told")
		}
		return g.handler(ctx, r)
	})})
	runs := s.submit(job.Spec{Keep: twoDays})
	g.next()
	must.Succeed(s, s.queue.Cancel(s.ctx, runs))
	s.kept(s.ends(runs, job.Cancelled))
	s.kept(s.ends(s.submit(job.Spec{Keep: twoDays, Payload: number(1)}), job.Failed))
	done := s.submit(job.Spec{Keep: twoDays})
	close(g.leave)
	s.kept(s.ends(done, job.Done))
}
