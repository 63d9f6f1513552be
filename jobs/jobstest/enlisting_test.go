package jobstest

import (
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/jobs"
)

// The assigner notes a worker, does not hear whether it has, and the worker is gone when it looks
// again.
func TestAWorkerThatLeavesWhileItIsEnlistedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, new(flaw).on())
		first := s.delays()
		s.assignerAt(first, "first")
		s.eventually("the first one is enlisted", func() bool { return s.documents("workers") == 1 })
		first.hold(func(c documents.Change) bool { return puts(c, "workers") })
		second := s.works(jobs.Worker{Name: "second", Handlers: kinds(echo)})
		note := first.next()
		second.stop()
		synctest.Wait() // the assigner knows that it has left
		first.hold(nil)
		if err := note.arrivesUnheard(); err != nil {
			t.Fatal(err)
		}
		s.eventually("the second one is forgotten", func() bool { return s.documents("workers") == 1 })
	})
}
