package inject

import (
	"testing"

	"github.com/ringfence/ringfence/lab/history"
	"github.com/ringfence/ringfence/lab/record"
)

func (r *Injector) busiest() (worker string) {
	r.rec.Look(func(s *record.Seen) { worker = s.Jobs.Busiest() })
	return worker
}

func TestTheBusiestWorkerHasTheMostJobs(t *testing.T) {
	r, _ := scripted() // worker-1 runs job a
	r.job("worker-2", "b", 8)
	r.job("worker-2", "c", 9)
	if got := r.busiest(); got != "worker-2" {
		t.Errorf("%s is busiest", got)
	}
	r.rec.Add(history.Event{
		Kind: history.Term, Process: "worker-2", State: history.Left, Token: 9, Key: "c",
		Resource: "job_c",
	})
	r.ended("worker-2", "exit code 137")
	if got := r.busiest(); got != "worker-1" {
		t.Errorf("%s is busiest after the end of worker-2", got)
	}
}
