package jobstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

func failedIsTriedAgain(s *stage) {
	var ran tally
	s.works(jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		if n := ran.add(r.ID); n <= 2 {
			if r.Failure != n-1 || r.Attempt != n {
				s.Errorf("run %d is attempt %d after %d failures", n, r.Attempt, r.Failure)
			}
			return nil, fmt.Errorf("failure %d", n)
		}
		return "at last", nil
	})})
	id := s.submit(job.Spec{Retries: 2, Backoff: job.Duration(time.Millisecond)})
	end := s.ends(id, job.Done)
	if end.Attempt != 3 || end.Failures != 2 || end.Error != "" || string(end.Result) != `"at last"` {
		s.Errorf("%+v", end)
	}
}

func failedTooOften(s *stage) {
	s.works(jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		var n int
		if err := r.Decode(&n); err != nil {
			return nil, err
		}
		if n == 1 {
			return nil, jobs.Permanent(errors.New("for good"))
		}
		return nil, errors.New(strings.Repeat("x", 2*job.MaxError))
	})})
	backoff := job.Duration(time.Millisecond)
	often := s.submit(job.Spec{Retries: 1, Backoff: backoff, Payload: number(0)})
	good := s.submit(job.Spec{Retries: 5, Backoff: backoff, Payload: number(1)})
	bad := s.submit(job.Spec{Retries: 5, Backoff: backoff, Payload: []byte(`"no number"`)})
	if end := s.ends(often, job.Failed); end.Failures != 2 || len(end.Error) != job.MaxError {
		s.Errorf("%+v", end)
	}
	for _, id := range []job.ID{good, bad} {
		if end := s.ends(id, job.Failed); end.Failures != 1 {
			s.Errorf("%+v", end)
		}
	}
}

func panicIsAFailure(s *stage) {
	s.works(jobs.Worker{Handlers: kinds(func(context.Context, *jobs.Run) (any, error) {
		panic("a bug")
	})})
	if end := s.ends(s.submit(job.Spec{}), job.Failed); !strings.Contains(end.Error, "a bug") {
		s.Errorf("%+v", end)
	}
}

func timeoutStops(s *stage) {
	g := s.gate()
	s.works(jobs.Worker{Handlers: kinds(g.handler)})
	id := s.submit(job.Spec{Timeout: job.Duration(50 * time.Millisecond)})
	if end := s.ends(id, job.Failed); !strings.Contains(end.Error, jobs.ErrTimeout.Error()) {
		s.Errorf("%+v", end)
	}
}
