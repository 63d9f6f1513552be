package traffic

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/lab/system"
)

const (
	uniqueKeys = 12
	// repeating is how many jobs repeat, for as long as the scenario lasts.
	repeating = 3
	// mostRetries is how often a client retries a job.
	mostRetries = 2
	// soon is about as long as a job waits, and runs.
	soon = 800 * time.Millisecond
)

// plan is what clients do to a job: in each of its lives, of which the first begins with the
// submission and the others with a retry.
type plan []life

type life struct {
	cancels bool
	after   time.Duration // the cancellation, since the life has begun
	retries bool          // it, once it has ended
	again   time.Duration // the retry, since the end
	by      *client
}

// race submits a job, through several clients at once if it has a unique key. The job of a key is
// always the same, as any submission may be the one that makes it.
func (s *submitter) race(ctx context.Context) {
	j, p := s.draw(), s.drawPlan()
	by := s.clients[:1+s.rnd.IntN(len(s.clients))]
	switch n := s.rnd.IntN(2 * uniqueKeys); {
	case s.repeat < repeating:
		s.repeat++
		j.Every, p, by = "1s", nil, by[:1]
	case n < uniqueKeys:
		j.Unique = fmt.Sprintf("key %d", n)
		j.payload = JobPayload{Steps: 2 + n%5}
		if n%4 == 0 {
			j.payload.Fails, j.Retries = 2, 1
		}
	default:
		by = by[len(by)-1:]
		if n%8 == 0 {
			j.payload.Fails, j.Retries = 2, 1
		}
	}
	var all sync.WaitGroup
	for _, c := range by {
		all.Go(func() {
			if id, ok := c.submit(ctx, j); ok {
				s.follow(ctx, id, p)
			}
		})
	}
	all.Wait()
}

func (s *submitter) drawPlan() plan {
	p := make(plan, 1+mostRetries)
	for i := range p {
		p[i] = life{
			cancels: s.rnd.IntN(3) == 0, after: time.Duration(s.rnd.Int64N(int64(soon))),
			retries: i < mostRetries && s.rnd.IntN(2) == 0,
			by:      s.clients[s.rnd.IntN(len(s.clients))],
		}
		if s.rnd.IntN(2) == 0 {
			p[i].again = time.Duration(s.rnd.Int64N(int64(soon)))
		}
	}
	return p
}

// carryOut waits for a job's end, and cancels and retries it as its plan says.
func (s *submitter) carryOut(ctx context.Context, id job.ID, p plan) {
	for {
		var now life
		if len(p) > 0 {
			now, p = p[0], p[1:]
		}
		if now.cancels {
			s.later(ctx, now.after, func() { now.by.cancel(ctx, id) })
		}
		state := s.await(ctx, id)
		again := make(chan bool, 1)
		if !now.retries || state == job.Done || !s.later(ctx, now.again, func() {
			s.rec.JobWaits(string(id))
			again <- now.by.retry(ctx, id)
		}) {
			return
		}
		if !<-again {
			s.rec.JobEnded(string(id)) // another job has its key
			return
		}
	}
}

// later makes a call after some time, unless no more calls are made.
func (s *submitter) later(ctx context.Context, after time.Duration, call func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.calls.Go(func() {
		_ = system.Sleep(ctx, after)
		call()
	})
	return true
}

// endCalls waits for all calls. There are no more of them.
func (s *submitter) endCalls() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.calls.Wait()
}
