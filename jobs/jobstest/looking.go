package jobstest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
)

// peeks looks at a job from a process that is neither its worker nor the one that has submitted it.
func peeks(s *stage) {
	g := s.gate()
	var lines atomic.Int64
	s.works(jobs.Worker{Handlers: kinds(func(ctx context.Context, r *jobs.Run) (any, error) {
		r.Show(func() any {
			if n := lines.Load(); n < 3 {
				return n
			}
			panic("as told")
		})
		return g.handler(ctx, r)
	})})
	s.works(jobs.Worker{Handlers: map[string]jobs.Handler{"other": echo}}) // it has nothing to show
	other := s.view()
	id := s.submit(job.Spec{})
	g.next()
	for _, want := range []string{"1", "2", ""} {
		lines.Add(1)
		p, err := other.Peek(s.ctx, id)
		for errors.Is(err, queueview.ErrNoAnswer) && s.ctx.Err() == nil { // not within five seconds
			p, err = other.Peek(s.ctx, id)
		}
		if err != nil || string(p.Result) != want || p.Attempt != 1 {
			s.Errorf("the job shows %s, %+v, %v; want %s", p.Result, p, err, want)
		}
	}
	s.eventually("nothing stays of a look", func() bool { return s.documents("peeks") == 0 })
	close(g.leave)
	s.ends(id, job.Done)
	if _, err := other.Peek(s.ctx, id); !errors.Is(err, job.ErrWrongState) {
		s.Errorf("a job that is done: %v", err)
	}
}

func historyOfAttempts(s *stage) {
	var ran tally
	s.works(jobs.Worker{Name: "w", Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		if ran.add(r.ID) < 3 {
			return nil, errors.New("not yet")
		}
		return nil, nil
	})})
	id := s.submit(job.Spec{Retries: 1, Backoff: job.Duration(time.Millisecond)})
	s.ends(id, job.Failed)
	must.Succeed(s, s.queue.Retry(s.ctx, id))
	end := s.ends(id, job.Done)
	if len(end.History) != 3 {
		s.Fatalf("the history is %+v", end.History)
	}
	for i, a := range end.History {
		want := job.OutcomeFailed
		if i == 2 {
			want = job.OutcomeDone
		}
		if a.Attempt != i+1 || a.Outcome != want || a.Worker != "w" || a.Started.IsZero() ||
			a.Ended.Before(a.Started) ||
			(a.Error == "not yet") != (i < 2) || i > 0 && a.Token <= end.History[i-1].Token {
			s.Errorf("attempt %d is %+v", i+1, a)
		}
	}
}

func pausedIsNotAssigned(s *stage) {
	paused := s.submit(job.Spec{Priority: 9})
	must.Succeed(s, s.queue.Pause(s.ctx, paused))
	s.works(jobs.Worker{Handlers: kinds(echo)})
	s.ends(s.submit(job.Spec{Payload: number(1)}), job.Done)
	if now, err := s.queue.Get(s.ctx, paused); err != nil || now.State != job.Waiting ||
		now.Attempt != 0 {
		s.Errorf("%+v, %v", now, err)
	}
	must.Succeed(s, s.queue.Resume(s.ctx, paused))
	s.ends(paused, job.Done)
	cancelled := s.submit(job.Spec{NotBefore: time.Now().Add(time.Hour)})
	for _, step := range []func(context.Context, job.ID) error{s.queue.Pause, s.queue.Cancel,
		s.queue.Retry} {
		must.Succeed(s, step(s.ctx, cancelled))
	}
	s.ends(cancelled, job.Done) // it is not paused any more, nor kept from its time
}

// pausedWhileItRuns pauses a job that repeats in its first round.
func pausedWhileItRuns(s *stage) {
	g := s.gate()
	s.works(jobs.Worker{Handlers: kinds(g.handler)})
	id := s.submit(job.Spec{Every: "1s"})
	g.next()
	must.Succeed(s, s.queue.Pause(s.ctx, id))
	g.leave <- struct{}{}
	round := s.becomes(id, "waiting for its second round", func(now job.Status) bool {
		return now.Rounds == 1
	})
	if !round.Paused || round.State != job.Waiting {
		s.Errorf("%+v", round)
	}
	s.ends(s.submit(job.Spec{
		Kind: "job", NotBefore: round.Due, Timeout: job.Duration(time.Millisecond),
	}), job.Failed)
	<-g.entered // of the other one
	if now, err := s.queue.Get(s.ctx, id); err != nil || now.State != job.Waiting ||
		now.Attempt != 1 {
		s.Errorf("after its time: %+v, %v", now, err)
	}
	must.Succeed(s, s.queue.Resume(s.ctx, id))
	g.next()
	close(g.leave)
	if err := s.queue.Cancel(s.ctx, id); err != nil && !errors.Is(err, job.ErrWrongState) {
		s.Fatal(err)
	}
}
