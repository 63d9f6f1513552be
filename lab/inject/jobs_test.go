package inject

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/traffic"
)

// ready says that a worker runs a job under a token.
func ready(r *Injector, worker, job string, t fence.Token) {
	r.rec.Add(history.Event{
		Kind: history.Term, Process: worker, State: history.Ready, Token: t, Key: job,
		Resource: fence.Resource("job_" + job),
	})
}

func (r *Injector) busiest() (worker string) {
	r.rec.Look(func(s *record.Seen) { worker = s.Jobs.Busiest() })
	return worker
}

func TestTheBusiestWorkerHasTheMostJobs(t *testing.T) {
	r, _ := scripted() // worker-1 runs job a
	ready(r, "worker-2", "b", 8)
	ready(r, "worker-2", "c", 9)
	if got := r.busiest(); got != "worker-2" {
		t.Errorf("%s is busiest", got)
	}
	r.rec.Add(history.Event{
		Kind: history.Term, Process: "worker-2", State: history.Left, Token: 9, Key: "c",
		Resource: "job_c",
	})
	r.rec.Add(history.Event{
		Kind: history.Note, Process: "worker-2", Text: history.Ended + "exit code 137",
	})
	if got := r.busiest(); got != "worker-1" {
		t.Errorf("%s is busiest after the end of worker-2", got)
	}
}

func TestJobsAreHandedOverOnceEachHasWrittenAgainOrEnded(t *testing.T) {
	r, s := scripted()
	ready(r, "worker-1", "b", 9)
	ctx := within(t, patience)
	done := make(chan error, 1)
	go func() {
		done <- r.Inject(ctx, []scenario.Fault{{
			Do: scenario.Pause, On: "busy worker", Until: scenario.HandedOver,
		}})
	}()
	s.until(t, "pause worker-1")
	ready(r, "worker-2", "a", 8)
	written := history.Event{
		Kind: history.Return, Do: history.Step, Outcome: history.OK, Key: "a/1/1/step-1",
		Resource: "job_a", Process: "worker-1/job 1", Token: 6,
	}
	r.rec.Add(written) // under the old token
	waits := func(what string) {
		t.Helper()
		select {
		case err := <-done:
			t.Fatalf("it did not wait for %s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	waits("either job")
	written.Process, written.Token = "worker-2/job 1", 8
	r.rec.Add(written)
	waits("the other job")
	r.rec.Add(history.Event{ // worker-1 says so, and may be wrong
		Kind: history.Return, Do: history.Change, Outcome: history.Unknown, State: history.JobDone,
		Key:     "b",
		Process: "worker-1/jobs",
	})
	waits("the other job's end")
	r.rec.JobEnded("b")
	if err := <-done; err != nil || s.calls[len(s.calls)-1] != "resume worker-1" {
		t.Errorf("%v, %q", err, s.calls)
	}
}

func TestAFaultOfTheAssignerWaitsForTheNextOne(t *testing.T) {
	r, s := scripted() // worker-2 assigns
	ctx := within(t, patience)
	done := make(chan error, 1)
	go func() {
		done <- r.Inject(ctx, []scenario.Fault{{
			Do: scenario.Pause, On: "assigner", Until: scenario.NextAssigner,
		}})
	}()
	s.until(t, "pause worker-2")
	r.rec.Add(history.Event{
		Kind: history.Term, Process: "worker-1", State: history.Ready, Token: 9,
		Resource: traffic.Assigner,
	})
	if err := <-done; err != nil || s.calls[len(s.calls)-1] != "resume worker-2" {
		t.Errorf("%v, %q", err, s.calls)
	}
}
