package jobstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
)

// randomSteps is how many steps a random history has.
const randomSteps = 150

// randomHistory submits, cancels and retries jobs at random, and starts, stops and kills workers
// meanwhile. Then one worker stays, every job must end as the model says, and every step of every
// job must have been along the arrows.
func randomHistory(s *stage) {
	m := &model{stage: s, history: newHistory(), wants: map[job.ID]*want{}}
	m.queue = s.open(m.history.records(s.connect()))
	for range randomSteps {
		m.step()
		if rand.IntN(3) == 0 {
			time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
		}
	}
	m.start()
	for _, id := range m.ids {
		m.hold(id, (*jobs.Queue).Resume)
		m.ended(id)
	}
	m.eventually("requests to cancel are dropped", func() bool { return m.documents("cancel") == 0 })
	for _, k := range m.workers {
		k.stop()
	}
	m.check()
	if checked := m.history.check(s); checked < len(m.ids) {
		s.Errorf("%d steps of %d jobs were recorded", checked, len(m.ids))
	}
}

// model knows how every job may end.
type model struct {
	*stage
	history *history
	queue   *jobs.Queue
	workers []*worker // that were not killed
	ids     []job.ID
	wants   map[job.ID]*want
}

// want is what a job may do.
type want struct {
	plan      plan
	retries   int
	cancelled bool // somebody has asked for it
}

// plan is a job's payload.
type plan struct {
	Fails int           `json:"fails"` // in each round
	Takes time.Duration `json:"takes"`
}

func (m *model) step() {
	switch n := rand.IntN(22); {
	case n < 9:
		m.submitOne()
	case n < 11 && len(m.ids) > 0:
		m.cancelOne(m.ids[rand.IntN(len(m.ids))])
	case n < 13 && len(m.ids) > 0:
		m.retryOne(m.ids[rand.IntN(len(m.ids))])
	case n >= 20 && len(m.ids) > 0:
		do := []func(*jobs.Queue, context.Context, job.ID) error{
			(*jobs.Queue).Pause, (*jobs.Queue).Resume, (*jobs.Queue).RunNow,
		}
		m.hold(m.ids[rand.IntN(len(m.ids))], do[rand.IntN(len(do))])
	case n < 17 && len(m.workers) < 4:
		m.start()
	case n < 19 && len(m.workers) > 0:
		m.take().stop()
	case len(m.workers) > 0 && m.f.Kill != nil:
		m.take().kill()
	}
}

func (m *model) submitOne() {
	w := &want{plan: plan{Fails: rand.IntN(4), Takes: time.Duration(rand.IntN(5)) * time.Millisecond}}
	w.retries = rand.IntN(4)
	payload, err := json.Marshal(w.plan)
	must.Succeed(m, err)
	spec := job.Spec{
		Kind: "job", Payload: payload, Retries: w.retries, Backoff: job.Duration(time.Millisecond),
		Priority: rand.IntN(3),
	}
	if rand.IntN(4) == 0 {
		spec.NotBefore = time.Now().Add(time.Duration(rand.IntN(50)) * time.Millisecond)
	}
	id, err := m.queue.Submit(m.ctx, spec)
	must.Succeed(m, err)
	m.ids = append(m.ids, id)
	m.wants[id] = w
}

func (m *model) cancelOne(id job.ID) {
	m.wants[id].cancelled = true
	if err := m.queue.Cancel(m.ctx, id); err != nil && !errors.Is(err, job.ErrWrongState) {
		m.Fatal(err)
	}
}

func (m *model) retryOne(id job.ID) {
	if err := m.queue.Retry(m.ctx, id); err != nil && !errors.Is(err, job.ErrWrongState) {
		m.Fatal(err)
	}
}

// hold pauses a job, resumes it, or has it run now. Whether it is there at all, its end shows.
func (m *model) hold(id job.ID, do func(*jobs.Queue, context.Context, job.ID) error) {
	if err := do(m.queue, m.ctx, id); err != nil && !errors.Is(err, job.ErrWrongState) &&
		!errors.Is(err, job.ErrNotFound) {
		m.Fatal(err)
	}
}

// start starts a worker.
func (m *model) start() {
	c := m.connect()
	k := m.worksAt(m.history.records(c), jobs.Worker{
		Capacity: 1 + rand.IntN(4), Handlers: kinds(m.handle),
	})
	k.at = c // what Kill knows
	m.workers = append(m.workers, k)
}

// take takes a worker out of the model.
func (m *model) take() *worker {
	i := rand.IntN(len(m.workers))
	k := m.workers[i]
	m.workers = slices.Delete(m.workers, i, i+1)
	return k
}

// handle fails as often as the job's plan says.
func (m *model) handle(ctx context.Context, r *jobs.Run) (any, error) {
	var p plan
	if err := r.Decode(&p); err != nil {
		return nil, err
	}
	select {
	case <-time.After(p.Takes):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.Failure < p.Fails {
		return nil, fmt.Errorf("failure %d of %d", r.Failure+1, p.Fails)
	}
	return r.Attempt, nil
}

// ended waits for the end of a job, and compares it with the model.
func (m *model) ended(id job.ID) {
	ctx, cancel := context.WithTimeout(m.ctx, m.f.patience)
	defer cancel()
	end, err := m.queue.Wait(ctx, id)
	w := m.wants[id]
	state, failures := job.Done, w.plan.Fails
	if w.plan.Fails > w.retries {
		state, failures = job.Failed, w.retries+1
	}
	switch {
	case err != nil:
		m.Fatalf("job %s has not ended: %+v, %v", id, end, err)
	case w.cancelled && end.State == job.Cancelled:
	case end.State != state || end.Failures != failures:
		m.Errorf("job %s: want %s after %d failures, got %+v", id, state, failures, end)
	case state == job.Done && string(end.Result) != fmt.Sprint(end.Attempt):
		m.Errorf("job %s: attempt %d has the result %s", id, end.Attempt, end.Result)
	}
}

// check checks that nothing is left of the jobs but what says how they have ended.
func (m *model) check() {
	for folder, want := range map[string]int{
		"waiting": 0, "unique": 0, "statuses": len(m.ids), "specs": len(m.ids), "finished": len(m.ids),
	} {
		if n := m.documents(folder); n != want {
			m.Errorf("after the end of %d jobs, there are %d documents in %s", len(m.ids), n, folder)
		}
	}
}
