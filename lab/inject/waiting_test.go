package inject

import (
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/traffic"
)

// waiting is a fault that has begun, and waits for what ends it.
type waiting struct {
	t    *testing.T
	s    *script
	done chan error
}

// begins injects a pause, and returns once this process is paused.
func begins(t *testing.T, r *Injector, s *script, on string, until scenario.Until, paused string,
) waiting {
	t.Helper()
	w := waiting{t, s, make(chan error, 1)}
	f := []scenario.Fault{{Do: scenario.Pause, On: on, Until: until}}
	go func() { w.done <- r.Inject(within(t, patience), f) }()
	s.until(t, "pause "+paused)
	return w
}

// waits checks that the fault does not end.
func (w waiting) waits(what string) {
	w.t.Helper()
	select {
	case err := <-w.done:
		w.t.Fatalf("it did not wait for %s: %v", what, err)
	case <-time.After(50 * time.Millisecond):
	}
}

// ends checks that the fault ends, and that this process is resumed. Several are resumed at once.
func (w waiting) ends(resumed string) {
	w.t.Helper()
	if err := <-w.done; err != nil || !slices.Contains(w.s.calls, "resume "+resumed) {
		w.t.Errorf("%v, %q", err, w.s.calls)
	}
}

// writes records writes of a worker that are done.
func (r *Injector) writes(worker string, n int) {
	for range n {
		r.rec.Add(history.Event{
			Kind: history.Return, Process: worker + "/redis", Do: history.Write, Outcome: history.OK,
		})
	}
}

func TestAFaultWaitsForTheNextLeadersWrites(t *testing.T) {
	r, s := scripted()
	w := begins(t, r, s, "leader", scenario.NextLeader, "worker-1")
	r.term("worker-2", history.Ready, 6)
	r.writes("worker-2", 5)
	w.waits("more writes")
	r.writes("worker-2", 50)
	w.ends("worker-1")
}

func TestAFaultWaitsUntilTheLeaderGivesUpItsTerm(t *testing.T) {
	r, s := scripted()
	w := begins(t, r, s, "workers", scenario.GivenUp, "worker-2")
	r.term("worker-2", history.Left, 4)
	w.waits("the leader")
	r.term("worker-1", history.Left, 5)
	w.ends("worker-1")
}

func TestAFaultWaitsForTheAttemptsOfAnother(t *testing.T) {
	for name, happens := range map[string]func(*Injector){
		"written": func(r *Injector) { r.writes("worker-2", 10) },
		"refused": func(r *Injector) { r.term("worker-2", history.Standing, 0) },
	} {
		r, s := scripted()
		r.term("worker-2", history.Won, 4) // long before, and it keeps writing
		w := begins(t, r, s, "leader", scenario.Tried, "worker-1")
		r.writes("worker-1", 10) // the leader's own, before it stood still
		w.waits("another: " + name)
		happens(r)
		w.ends("worker-1")
	}
}

func TestAFaultWaitsForTermsAboveTheLastLeaders(t *testing.T) {
	won := func(r *Injector, tokens ...fence.Token) {
		for _, token := range tokens {
			r.term("worker-2", history.Won, token)
		}
	}
	r, s := scripted()
	r.term("worker-1", history.Ready, 10)
	w := begins(t, r, s, "worker-1", scenario.Passed, "worker-1")
	won(r, 8, 9, 10, 11, 12)
	w.waits("a third term above")
	won(r, 13)
	w.ends("worker-1")
}

func TestJobsAreHandedOverOnceEachHasWrittenAgainOrEnded(t *testing.T) {
	r, s := scripted()
	r.job("worker-1", "b", 9)
	w := begins(t, r, s, "busy worker", scenario.HandedOver, "worker-1")
	r.job("worker-2", "a", 8)
	written := history.Event{
		Kind: history.Return, Do: history.Step, Outcome: history.OK, Key: "a/1/1/step-1",
		Resource: "job_a", Process: "worker-1/job 1", Token: 6,
	}
	r.rec.Add(written) // under the old token
	w.waits("either job")
	written.Process, written.Token = "worker-2/job 1", 8
	r.rec.Add(written)
	w.waits("the other job")
	r.rec.Add(history.Event{ // worker-1 says so, and may be wrong
		Kind: history.Return, Do: history.Change, Outcome: history.Unknown, State: history.JobDone,
		Key:     "b",
		Process: "worker-1/jobs",
	})
	w.waits("the other job's end")
	r.rec.JobEnded("b")
	w.ends("worker-1")
}

func TestAFaultOfTheAssignerWaitsForTheNextOne(t *testing.T) {
	r, s := scripted() // worker-2 assigns
	w := begins(t, r, s, "assigner", scenario.NextAssigner, "worker-2")
	r.rec.Add(history.Event{
		Kind: history.Term, Process: "worker-1", State: history.Ready, Token: 9,
		Resource: traffic.Assigner,
	})
	w.ends("worker-2")
}
