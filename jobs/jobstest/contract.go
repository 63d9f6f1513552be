package jobstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/fence/group"
	"github.com/ringfence/ringfence/internal/test/contract"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/job"
	"github.com/ringfence/ringfence/jobs/queueview"
)

// Fixture connects the contract to a coordinator.
type Fixture struct {
	// Open makes a client that shares no connection and no session with another, as a separate process
	// would. The contract closes it.
	Open func(t testing.TB) documents.Coordinator

	// Kill makes a client vanish without a word: nothing of it reaches the coordinator any more, and
	// its sessions end there. Clauses that need it are skipped if it is missing.
	Kill func(t testing.TB, c documents.Coordinator)

	// Expire ends the sessions of a client at the coordinator, which goes on to answer it. May be nil.
	Expire func(t testing.TB, c documents.Coordinator)

	patience time.Duration // how long anything may take; busy when zero
}

// On is the fixture of a coordinator that keeps the contract of fencetest, and has documents.
func On(h fencetest.Fixture) Fixture {
	return Fixture{
		Open:   func(t testing.TB) documents.Coordinator { return h.Open(t).(documents.Coordinator) },
		Expire: func(t testing.TB, c documents.Coordinator) { h.Expire(t, c) },
		Kill: func(t testing.TB, c documents.Coordinator) {
			h.Cut(t, c)
			h.Expire(t, c)
			t.Cleanup(func() { h.Heal(t, c) })
		},
	}
}

// Run checks jobs on a coordinator against the contract.
func Run(t *testing.T, f Fixture) {
	contract.RunParallel(t, clauses, func(t *testing.T) *stage { return newStage(t, f) })
}

// busy is how long anything may take on a busy machine.
const busy = 5 * time.Minute

var made atomic.Int64

// stage is one clause's group, with a client that submits.
type stage struct {
	testing.TB
	f     Fixture
	ctx   context.Context
	name  string
	at    documents.Coordinator
	queue *jobs.Queue
	docs  documents.Store
}

func newStage(t testing.TB, f Fixture) *stage {
	t.Helper()
	if f.patience == 0 {
		f.patience = busy
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*f.patience)
	t.Cleanup(cancel)
	s := &stage{TB: t, f: f, ctx: ctx, name: fmt.Sprintf("g%d_%d", time.Now().UnixNano(), made.Add(1))}
	s.at = s.connect()
	s.queue, s.docs = s.open(s.at), s.at.Documents()
	return s
}

// connect opens a client and closes it with the test.
func (s *stage) connect() documents.Coordinator {
	s.Helper()
	c := s.f.Open(s)
	s.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.Errorf("close the coordinator: %v", err)
		}
	})
	return c
}

func (s *stage) open(c documents.Coordinator) *jobs.Queue {
	s.Helper()
	q, err := jobs.New(c, s.name)
	must.Succeed(s, err)
	return q
}

func (s *stage) view() *queueview.View {
	s.Helper()
	v, err := queueview.New(s.connect(), s.name)
	must.Succeed(s, err)
	return v
}

// worker is a process that works.
type worker struct {
	s      *stage
	at     documents.Coordinator
	cancel context.CancelFunc
	ended  chan struct{}
}

// works starts a worker, and stops it with the test. It waits until the group knows it.
func (s *stage) works(w jobs.Worker) *worker { s.Helper(); return s.worksAt(s.connect(), w) }

// worksAt starts a worker with a client.
func (s *stage) worksAt(c documents.Coordinator, w jobs.Worker) *worker {
	s.Helper()
	k := &worker{s: s, at: c, ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(s.ctx)
	k.cancel = cancel
	w.Queue = s.open(k.at)
	if w.Name == "" {
		w.Name = fmt.Sprint("worker-", made.Add(1))
	}
	go func() {
		defer close(k.ended)
		if err := w.Run(ctx); err != nil {
			s.Errorf("%s: %v", w.Name, err)
		}
	}()
	s.Cleanup(k.stop)
	s.eventually(w.Name+" is a member", func() bool {
		return slices.ContainsFunc(s.members(), func(m group.Member) bool { return m.Name == w.Name })
	})
	return k
}

// stop stops the worker in order.
func (k *worker) stop() { k.cancel(); <-k.ended }

// kill makes the worker vanish, or skips the test. Its handlers go on.
func (k *worker) kill() {
	k.s.Helper()
	if k.s.f.Kill == nil {
		k.s.Skip("the fixture has no Kill")
	}
	k.s.f.Kill(k.s, k.at)
}

// submit hands a job in.
func (s *stage) submit(spec job.Spec) job.ID {
	s.Helper()
	if spec.Kind == "" {
		spec.Kind = "job"
	}
	id, err := s.queue.Submit(s.ctx, spec)
	must.Succeed(s, err)
	return id
}

// ends waits until a job has ended in a state.
func (s *stage) ends(id job.ID, want job.State) job.Status {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.f.patience)
	defer cancel()
	got, err := s.queue.Wait(ctx, id)
	if err != nil || got.State != want {
		s.Fatalf("job %s is %+v, %v; want %s", id, got, err, want)
	}
	return got
}

// becomes waits until a job's status is as wanted.
func (s *stage) becomes(id job.ID, what string, is func(job.Status) bool) job.Status {
	s.Helper()
	found := errors.New("found")
	ctx, cancel := context.WithTimeout(s.ctx, s.f.patience)
	defer cancel()
	var last job.Status
	err := s.queue.Watch(ctx, id, func(now job.Status) error {
		if last = now; is(now) {
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		s.Fatalf("job %s is not %s but %+v: %v", id, what, last, err)
	}
	return last
}

// state waits until a job is in a state.
func (s *stage) state(id job.ID, want job.State) job.Status {
	s.Helper()
	return s.becomes(id, string(want), func(now job.Status) bool { return now.State == want })
}

// eventually waits until something holds.
func (s *stage) eventually(what string, holds func() bool) {
	s.Helper()
	for end := time.Now().Add(s.f.patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("not in time: %s", what)
		}
	}
}

// documents is how many documents one of the group's folders has.
func (s *stage) documents(folder string) int {
	s.Helper()
	var names []string
	s.ask(func() (err error) {
		names, err = s.docs.Names(s.ctx, "jobs/"+s.name+"/"+folder)
		return err
	})
	return len(names)
}

// members lists the group's workers.
func (s *stage) members() (all []group.Member) {
	s.Helper()
	s.ask(func() (err error) {
		all, err = s.queue.Group().Members(s.ctx)
		return err
	})
	return all
}

// leaderOf says who leads a resource.
func (s *stage) leaderOf(r fence.Resource) (leader elector.Candidate) {
	s.Helper()
	s.ask(func() error {
		_, all, err := s.at.Leaders(s.ctx, r)
		if err == nil {
			leader = all[0]
		}
		return err
	})
	return leader
}

// ask asks again while the coordinator does not answer, as on a busy machine.
func (s *stage) ask(question func() error) {
	s.Helper()
	s.eventually("the coordinator answers", func() bool {
		err := question()
		if err != nil && !errors.Is(err, fence.ErrNotDone) {
			s.Fatal(err)
		}
		return err == nil
	})
}

// gate is a handler that waits to be let through, or for its context.
type gate struct {
	s       *stage
	entered chan *jobs.Run
	leave   chan struct{}
}

func (s *stage) gate() *gate {
	return &gate{s: s, entered: make(chan *jobs.Run, 1000), leave: make(chan struct{})}
}

// next waits for the next run that begins.
func (g *gate) next() *jobs.Run {
	g.s.Helper()
	limit := time.NewTimer(g.s.f.patience)
	defer limit.Stop()
	select {
	case r := <-g.entered:
		return r
	case <-g.s.ctx.Done():
	case <-limit.C:
	}
	g.s.Fatal("no job begins in time")
	return nil
}

func (g *gate) handler(ctx context.Context, r *jobs.Run) (any, error) {
	g.entered <- r
	select {
	case <-g.leave:
		return "passed", nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// stubborn is a handler that does not listen to its context. It ends with the test.
func (g *gate) stubborn(_ context.Context, r *jobs.Run) (any, error) {
	g.entered <- r
	select {
	case <-g.leave:
	case <-g.s.ctx.Done():
	}
	return "stubborn", nil
}

func kinds(h jobs.Handler) map[string]jobs.Handler { return map[string]jobs.Handler{"job": h} }

// echo returns its input.
func echo(_ context.Context, r *jobs.Run) (any, error) { return r.Spec.Payload, nil }

func number(n int) json.RawMessage { return json.RawMessage(fmt.Sprint(n)) }

// tally counts what happens to each job.
type tally struct {
	mu sync.Mutex
	n  map[job.ID]int
}

func (c *tally) add(id job.ID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[job.ID]int{}
	}
	c.n[id]++
	return c.n[id]
}
