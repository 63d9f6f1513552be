package jobstest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs"
)

// clause is one part of the contract.
type clause struct {
	name string
	run  func(*stage)
}

var clauses = []clause{
	{"every job is done, and its result published", everyJobIsDone},
	{"a job waits for a worker", jobWaitsForAWorker},
	{"a job waits for its time", jobWaitsForItsTime},
	{"a job with a higher priority goes first", priorityGoesFirst},
	{"a worker has no more jobs than it wants", capacityIsRespected},
	{"a job goes to a worker with its labels and its kind", labelsAndKinds},
	{"two jobs with one resource never run at once", oneResourceAtATime},
	{"a job whose resource is taken takes no room", takenResource},
	{"a job whose resource is taken takes no room when another one assigns", takenResourceOfAPredecessor},
	{"jobs with one resource are assigned one after the other", sharedOneByOne},
	{"several jobs are handed in at once", submitAll},
	{"a unique job is handed in once", uniqueIsOnce},
	{"a failed job is tried again", failedIsTriedAgain},
	{"a job that fails too often has failed", failedTooOften},
	{"a panic is a failure", panicIsAFailure},
	{"a job that runs for too long is stopped", timeoutStops},
	{"a waiting job is cancelled at once", waitingIsCancelled},
	{"a running job is cancelled", runningIsCancelled},
	{"a failed or cancelled job can be tried again", retryByHand},
	{"a job whose unique key is taken cannot be tried again", retryOfATakenKey},
	{"a job that repeats starts again", repeats},
	{"a finished job is forgotten", finishedIsForgotten},
	{"a worker that stops gives its jobs back", stoppingGivesBack},
	{"nothing stays of a worker that has stopped", stoppingLeavesNothing},
	{"a worker that stops lets its jobs end within the grace", stoppingHasGrace},
	{"the jobs of a worker that is gone go to another", goneWorkersJobs},
	{"the jobs of a worker that is gone with the one who assigns go to another", bothAreGone},
	{"a job that has lost too many workers has failed", lostTooOften},
	{"a worker that was thought gone publishes nothing", zombiePublishesNothing},
	{"the result of a worker that leads no more is not published", lateResult},
	{"a change of a deposed leader of the group assigns nothing", lateAssignment},
	{"random histories keep the rules", randomHistory},
	{"a worker that has lost its session comes back under another ID", comesBack},
	{"jobs go on when the one who assigns is gone", assignerIsGone},
	{"what is no job is refused", badSpecs},
	{"jobs are listed", jobsAreListed},
}

func everyJobIsDone(s *stage) {
	const many = 60
	var ran tally
	for range 3 {
		s.works(jobs.Worker{Handlers: kinds(func(ctx context.Context, r *jobs.Run) (any, error) {
			ran.add(r.ID)
			if r.Term.Claim().Resource != r.Spec.Resource {
				s.Errorf("the term is of %s, the job's resource is %s", r.Term.Claim().Resource, r.Spec.Resource)
			}
			return echo(ctx, r)
		})})
	}
	ids := make([]jobs.ID, many)
	for i := range many {
		ids[i] = s.submit(jobs.Spec{Payload: number(i)})
	}
	for i, id := range ids {
		end := s.ends(id, jobs.Done)
		if string(end.Result) != fmt.Sprint(i) || end.Attempt != 1 || end.Token == 0 || end.WorkerName == "" {
			s.Errorf("job %d: %+v", i, end)
		}
		if n := ran.add(id); n != 2 {
			s.Errorf("job %d ran %d times", i, n-1)
		}
	}
}

func jobWaitsForAWorker(s *stage) {
	id := s.submit(jobs.Spec{Payload: number(1)})
	if now, err := s.queue.Get(s.ctx, id); err != nil || now.State != jobs.Waiting {
		s.Errorf("%+v, %v", now, err)
	}
	s.works(jobs.Worker{Handlers: kinds(echo)})
	s.ends(id, jobs.Done)
}

func jobWaitsForItsTime(s *stage) {
	s.works(jobs.Worker{Handlers: kinds(echo)})
	due := time.Now().Add(time.Second)
	id := s.submit(jobs.Spec{NotBefore: due, Payload: number(1)})
	s.ends(s.submit(jobs.Spec{Payload: number(2)}), jobs.Done) // a later one does not wait behind it
	if end := s.ends(id, jobs.Done); end.Started.Before(due.Add(-10 * time.Millisecond)) {
		s.Errorf("due at %v, started at %v", due, end.Started)
	}
}

func priorityGoesFirst(s *stage) {
	low := s.submit(jobs.Spec{})
	high := s.submit(jobs.Spec{Priority: 9})
	older := s.submit(jobs.Spec{Priority: 5})
	time.Sleep(2 * time.Millisecond) // within a millisecond the order is any
	middle := s.submit(jobs.Spec{Priority: 5})
	var mu sync.Mutex
	var order []jobs.ID
	s.works(jobs.Worker{Capacity: 1, Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, r.ID)
		return nil, nil
	})})
	for _, id := range []jobs.ID{low, high, older, middle} {
		s.ends(id, jobs.Done)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []jobs.ID{high, older, middle, low}; fmt.Sprint(order) != fmt.Sprint(want) {
		s.Errorf("the order was %v, want %v", order, want)
	}
}

func capacityIsRespected(s *stage) {
	const capacity, many = 2, 12
	var now, most atomic.Int64
	g := s.gate()
	s.works(jobs.Worker{Capacity: capacity, Handlers: kinds(func(ctx context.Context, r *jobs.Run) (any, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		return g.handler(ctx, r)
	})})
	var ids []jobs.ID
	for range many {
		ids = append(ids, s.submit(jobs.Spec{}))
	}
	for range capacity {
		g.next()
	}
	assigned := 0
	err := s.queue.List(s.ctx, func(status jobs.Status) error {
		if status.State == jobs.Assigned || status.State == jobs.Running {
			assigned++
		}
		return nil
	})
	if err != nil || assigned > capacity {
		s.Errorf("%d jobs are assigned to a worker for %d: %v", assigned, capacity, err)
	}
	close(g.leave)
	for _, id := range ids {
		s.ends(id, jobs.Done)
	}
	if most.Load() != capacity {
		s.Errorf("%d jobs ran at once, the capacity is %d", most.Load(), capacity)
	}
}

func labelsAndKinds(s *stage) {
	s.works(jobs.Worker{Name: "plain", Handlers: kinds(echo)})
	s.works(jobs.Worker{Name: "labelled", Labels: []string{"gpu", "zone=a"}, Handlers: kinds(echo)})
	s.works(jobs.Worker{Name: "other", Handlers: map[string]jobs.Handler{"other": echo}})
	nobody := s.submit(jobs.Spec{Labels: []string{"gpu", "zone=b"}})
	unknown := s.submit(jobs.Spec{Kind: "unknown"})
	for range 5 {
		id := s.submit(jobs.Spec{Labels: []string{"gpu"}})
		if end := s.ends(id, jobs.Done); end.WorkerName != "labelled" {
			s.Errorf("%s did a job for gpu", end.WorkerName)
		}
		id = s.submit(jobs.Spec{Kind: "other"})
		if end := s.ends(id, jobs.Done); end.WorkerName != "other" {
			s.Errorf("%s did a job of another kind", end.WorkerName)
		}
	}
	for _, id := range []jobs.ID{nobody, unknown} {
		s.state(id, jobs.Waiting)
	}
	s.works(jobs.Worker{Name: "late", Labels: []string{"zone=b", "gpu"}, Handlers: kinds(echo)})
	if end := s.ends(nobody, jobs.Done); end.WorkerName != "late" {
		s.Errorf("%s did it", end.WorkerName)
	}
}

// oneResourceAtATime has jobs of two groups share a resource. Within a group, the one who assigns hands
// them out one after the other anyway.
func oneResourceAtATime(s *stage) {
	var inside, runs atomic.Int64
	var last atomic.Int64 // the token
	other := *s
	other.name += "b"
	other.queue = other.open(s.connect())
	groups := []*stage{s, &other}
	for _, g := range groups {
		g.works(jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
			if inside.Add(1) != 1 {
				s.Error("two jobs with one resource run at once")
			}
			defer inside.Add(-1)
			if before := last.Swap(int64(r.Term.Token())); before >= int64(r.Term.Token()) {
				s.Errorf("token %v follows %d", r.Term.Token(), before)
			}
			time.Sleep(2 * time.Millisecond)
			runs.Add(1)
			return nil, nil
		})})
	}
	ids := map[*stage][]jobs.ID{}
	for range 5 {
		for _, g := range groups {
			ids[g] = append(ids[g], g.submit(jobs.Spec{Resource: fence.Resource(s.name + "_r")}))
		}
	}
	for _, g := range groups {
		for _, id := range ids[g] {
			g.ends(id, jobs.Done)
		}
	}
	if runs.Load() != 10 {
		s.Errorf("%d runs of 10 jobs", runs.Load())
	}
}

// takenResource has a job wait for one with its resource, while there is room for one more job.
func takenResource(s *stage) {
	g := s.gate()
	s.works(jobs.Worker{Capacity: 2, Handlers: map[string]jobs.Handler{"job": echo, "long": g.handler}})
	r := fence.Resource(s.name + "_r")
	long := s.submit(jobs.Spec{Kind: "long", Resource: r})
	g.next()
	s.othersPass(g, r, long)
}

// othersPass submits jobs with a taken resource and others, of which only the others must be done until
// the one that has it ends.
func (s *stage) othersPass(g *gate, r fence.Resource, long jobs.ID) {
	s.Helper()
	var behind []jobs.ID
	for range 5 {
		behind = append(behind, s.submit(jobs.Spec{Resource: r, Priority: 9}))
	}
	for range 3 {
		s.ends(s.submit(jobs.Spec{}), jobs.Done)
	}
	for _, id := range behind {
		if now, err := s.queue.Get(s.ctx, id); err != nil || now.State != jobs.Waiting || now.Attempt != 0 {
			s.Errorf("its resource is taken: %+v, %v", now, err)
		}
	}
	close(g.leave)
	for _, id := range append(behind, long) {
		s.ends(id, jobs.Done)
	}
}

func takenResourceOfAPredecessor(s *stage) {
	first := s.works(jobs.Worker{Name: "first", Handlers: map[string]jobs.Handler{"none": echo}})
	s.eventually("it assigns", func() bool { return s.leader() == "first" })
	g := s.gate()
	s.works(jobs.Worker{Name: "second", Capacity: 2, Handlers: map[string]jobs.Handler{
		"job": echo, "long": g.handler,
	}})
	r := fence.Resource(s.name + "_r")
	long := s.submit(jobs.Spec{Kind: "long", Resource: r})
	g.next()
	first.stop()
	s.othersPass(g, r, long)
}

// sharedOneByOne has several jobs with one resource wait when a worker comes.
func sharedOneByOne(s *stage) {
	r := fence.Resource(s.name + "_r")
	var ids []jobs.ID
	for range 3 {
		ids = append(ids, s.submit(jobs.Spec{Kind: "long", Resource: r}))
	}
	g := s.gate()
	s.works(jobs.Worker{Capacity: 8, Handlers: map[string]jobs.Handler{"job": echo, "long": g.handler}})
	first := g.next().ID
	s.ends(s.submit(jobs.Spec{}), jobs.Done)
	for _, id := range ids {
		if now, err := s.queue.Get(s.ctx, id); err != nil || id != first && now.Attempt != 0 {
			s.Errorf("its resource is taken: %+v, %v", now, err)
		}
	}
	close(g.leave)
	for _, id := range ids {
		s.ends(id, jobs.Done)
	}
}

func submitAll(s *stage) {
	const many = 60
	specs := make([]jobs.Spec, many)
	for i := range specs {
		specs[i] = jobs.Spec{Kind: "job", Payload: number(i)}
	}
	specs[10].Unique, specs[20].Unique, specs[50].Unique = "key", "key", "key"
	ids, err := s.queue.SubmitAll(s.ctx, specs)
	if err != nil || len(ids) != many {
		s.Fatal(ids, err)
	}
	if ids[20] != ids[10] || ids[50] != ids[10] {
		s.Errorf("%s, %s and %s have one key", ids[10], ids[20], ids[50])
	}
	waiting, err := s.docs.Names(s.ctx, "jobs/"+s.name+"/waiting")
	if err != nil {
		s.Fatal(err)
	}
	want := slices.Delete(slices.Delete(slices.Clone(ids), 50, 51), 20, 21)
	if !slices.EqualFunc(waiting, want, func(entry string, id jobs.ID) bool {
		return strings.HasSuffix(entry, "."+string(id))
	}) {
		s.Errorf("%d jobs wait in another order than %d were handed in", len(waiting), len(want))
	}
	s.works(jobs.Worker{Handlers: kinds(echo)})
	for i, id := range ids {
		if end := s.ends(id, jobs.Done); string(end.Result) != fmt.Sprint(i) && i != 20 && i != 50 {
			s.Errorf("job %d: %+v", i, end)
		}
	}
	all := 0
	if err := s.queue.List(s.ctx, func(jobs.Status) error { all++; return nil }); err != nil || all != many-2 {
		s.Errorf("there are %d jobs, want %d: %v", all, many-2, err)
	}
	specs[59].Kind = ""
	if ids, err := s.queue.SubmitAll(s.ctx, specs); len(ids) != 0 || !errors.Is(err, jobs.ErrBadSpec) {
		s.Errorf("with a bad one: %v, %v", ids, err)
	}
}

func uniqueIsOnce(s *stage) {
	first := s.submit(jobs.Spec{Unique: "night/2026 ü"})
	if again := s.submit(jobs.Spec{Unique: "night/2026 ü"}); again != first {
		s.Errorf("%s and %s have one key", first, again)
	}
	if other := s.submit(jobs.Spec{Unique: "night/2027"}); other == first {
		s.Error("two keys are one job")
	}
	s.works(jobs.Worker{Handlers: kinds(echo)})
	s.ends(first, jobs.Done)
	if later := s.submit(jobs.Spec{Unique: "night/2026 ü"}); later == first {
		s.Error("the key of a finished job is still taken")
	}
}

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
	id := s.submit(jobs.Spec{Retries: 2, Backoff: jobs.Duration(time.Millisecond)})
	end := s.ends(id, jobs.Done)
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
		return nil, errors.New(strings.Repeat("x", 2*jobs.ErrorMost))
	})})
	backoff := jobs.Duration(time.Millisecond)
	often := s.submit(jobs.Spec{Retries: 1, Backoff: backoff, Payload: number(0)})
	good := s.submit(jobs.Spec{Retries: 5, Backoff: backoff, Payload: number(1)})
	bad := s.submit(jobs.Spec{Retries: 5, Backoff: backoff, Payload: []byte(`"no number"`)})
	if end := s.ends(often, jobs.Failed); end.Failures != 2 || len(end.Error) != jobs.ErrorMost {
		s.Errorf("%+v", end)
	}
	for _, id := range []jobs.ID{good, bad} {
		if end := s.ends(id, jobs.Failed); end.Failures != 1 {
			s.Errorf("%+v", end)
		}
	}
}

func panicIsAFailure(s *stage) {
	s.works(jobs.Worker{Handlers: kinds(func(context.Context, *jobs.Run) (any, error) { panic("a bug") })})
	if end := s.ends(s.submit(jobs.Spec{}), jobs.Failed); !strings.Contains(end.Error, "a bug") {
		s.Errorf("%+v", end)
	}
}

func timeoutStops(s *stage) {
	g := s.gate()
	s.works(jobs.Worker{Handlers: kinds(g.handler)})
	id := s.submit(jobs.Spec{Timeout: jobs.Duration(50 * time.Millisecond)})
	if end := s.ends(id, jobs.Failed); !strings.Contains(end.Error, jobs.ErrTimeout.Error()) {
		s.Errorf("%+v", end)
	}
}

func waitingIsCancelled(s *stage) {
	id := s.submit(jobs.Spec{Unique: "key"})
	if err := s.queue.Cancel(s.ctx, id); err != nil {
		s.Fatal(err)
	}
	if now, err := s.queue.Get(s.ctx, id); err != nil || now.State != jobs.Cancelled {
		s.Errorf("%+v, %v", now, err)
	}
	if err := s.queue.Cancel(s.ctx, id); !errors.Is(err, jobs.ErrFinished) {
		s.Errorf("cancelled again: %v", err)
	}
	s.works(jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		if r.ID == id {
			s.Error("a cancelled job runs")
		}
		return nil, nil
	})})
	s.ends(s.submit(jobs.Spec{Unique: "key"}), jobs.Done)
}

func runningIsCancelled(s *stage) {
	g := s.gate()
	s.works(jobs.Worker{Handlers: kinds(g.handler)})
	id := s.submit(jobs.Spec{Retries: 5})
	g.next()
	for range 2 {
		if err := s.queue.Cancel(s.ctx, id); err != nil && !errors.Is(err, jobs.ErrFinished) {
			s.Fatal(err)
		}
	}
	s.ends(id, jobs.Cancelled)
	// One that ends in spite of it is done.
	h := s.gate()
	s.works(jobs.Worker{Handlers: map[string]jobs.Handler{"stubborn": h.stubborn}})
	id = s.submit(jobs.Spec{Kind: "stubborn"})
	h.next()
	if err := s.queue.Cancel(s.ctx, id); err != nil {
		s.Fatal(err)
	}
	close(h.leave)
	s.ends(id, jobs.Done)
}

func retryByHand(s *stage) {
	var ran tally
	s.works(jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		if ran.add(r.ID) == 1 {
			return nil, errors.New("not yet")
		}
		return nil, nil
	})})
	id := s.submit(jobs.Spec{Unique: "key"})
	s.ends(id, jobs.Failed)
	if err := s.queue.Retry(s.ctx, id); err != nil {
		s.Fatal(err)
	}
	s.ends(id, jobs.Done)
	if err := s.queue.Retry(s.ctx, id); !errors.Is(err, jobs.ErrFinished) {
		s.Errorf("a job that is done: %v", err)
	}
}

func retryOfATakenKey(s *stage) {
	s.works(jobs.Worker{Handlers: kinds(func(context.Context, *jobs.Run) (any, error) {
		return nil, errors.New("as told")
	})})
	id := s.submit(jobs.Spec{Unique: "key"})
	s.ends(id, jobs.Failed)
	other := s.submit(jobs.Spec{Unique: "key", NotBefore: time.Now().Add(time.Hour)})
	if err := s.queue.Retry(s.ctx, id); !errors.Is(err, jobs.ErrTaken) {
		s.Errorf("its key is that of %s: %v", other, err)
	}
	if err := s.queue.Cancel(s.ctx, other); err != nil {
		s.Fatal(err)
	}
	if err := s.queue.Retry(s.ctx, id); err != nil {
		s.Errorf("its key is free again: %v", err)
	}
}

func repeats(s *stage) {
	var ran tally
	s.works(jobs.Worker{Handlers: kinds(func(_ context.Context, r *jobs.Run) (any, error) {
		if r.Failure == 0 { // every round fails once
			return nil, errors.New("not yet")
		}
		if failed := ran.add(r.ID); r.Attempt != 2*failed {
			s.Errorf("round %d ends with attempt %d", failed, r.Attempt)
		}
		return r.Attempt, nil
	})})
	id := s.submit(jobs.Spec{Every: "1s", Retries: 1, Backoff: jobs.Duration(time.Millisecond)})
	twice := s.becomes(id, "at its third round", func(now jobs.Status) bool { return now.Rounds >= 2 })
	if twice.Attempt < 4 || twice.Failures > 1 || twice.State.Finished() {
		s.Errorf("%+v", twice)
	}
	if err := s.queue.Cancel(s.ctx, id); err != nil {
		s.Fatal(err)
	}
	s.eventually("it ends", func() bool {
		now, err := s.queue.Get(s.ctx, id)
		if err == nil && !now.State.Finished() {
			err = s.queue.Cancel(s.ctx, id)
		}
		return err == nil && now.State == jobs.Cancelled
	})
}

func finishedIsForgotten(s *stage) {
	s.works(jobs.Worker{Handlers: kinds(echo)})
	id := s.submit(jobs.Spec{Keep: jobs.Duration(time.Millisecond), Payload: number(1)})
	kept := s.submit(jobs.Spec{Payload: number(1)})
	s.eventually("it is forgotten", func() bool {
		_, err := s.queue.Get(s.ctx, id)
		return errors.Is(err, jobs.ErrUnknownJob)
	})
	if _, err := s.queue.Spec(s.ctx, id); !errors.Is(err, jobs.ErrUnknownJob) {
		s.Errorf("its spec: %v", err)
	}
	s.ends(kept, jobs.Done)
}

func badSpecs(s *stage) {
	for what, bad := range map[string]jobs.Spec{
		"no kind":         {},
		"a long payload":  {Kind: "a", Payload: []byte(`"` + strings.Repeat("x", jobs.PayloadMost) + `"`)},
		"no JSON":         {Kind: "a", Payload: []byte("{")},
		"a resource":      {Kind: "a", Resource: "Bad"},
		"a priority":      {Kind: "a", Priority: 10},
		"retries":         {Kind: "a", Retries: -1},
		"a timeout":       {Kind: "a", Timeout: -1},
		"a label":         {Kind: "a", Labels: []string{"a b"}},
		"a period":        {Kind: "a", Every: "1ms"},
		"a schedule":      {Kind: "a", Every: "every day"},
		"a time zone":     {Kind: "a", Every: "TZ=Asia/Tokyo 0 3 * * *"},
		"a unique key":    {Kind: "a", Unique: strings.Repeat("x", jobs.UniqueMost+1)},
		"several at once": {Every: "x", Priority: -1},
	} {
		if id, err := s.queue.Submit(s.ctx, bad); !errors.Is(err, jobs.ErrBadSpec) {
			s.Errorf("%s: %s, %v", what, id, err)
		}
	}
	if _, err := s.queue.Get(s.ctx, "no-id"); !errors.Is(err, jobs.ErrBadID) {
		s.Error(err)
	}
	if _, err := s.queue.Get(s.ctx, "00000000000000000000000000"); !errors.Is(err, jobs.ErrUnknownJob) {
		s.Error(err)
	}
	if err := s.queue.Cancel(s.ctx, "00000000000000000000000000"); !errors.Is(err, jobs.ErrUnknownJob) {
		s.Error(err)
	}
}

func jobsAreListed(s *stage) {
	var want []jobs.ID
	for range 20 {
		want = append(want, s.submit(jobs.Spec{}))
	}
	var got []jobs.ID
	err := s.queue.List(s.ctx, func(status jobs.Status) error {
		got = append(got, status.ID)
		return nil
	})
	if err != nil || len(got) != len(want) {
		s.Fatalf("%d of %d jobs, %v", len(got), len(want), err)
	}
	for _, id := range want {
		if spec, err := s.queue.Spec(s.ctx, id); err != nil || spec.Kind != "job" {
			s.Errorf("%+v, %v", spec, err)
		}
	}
}
