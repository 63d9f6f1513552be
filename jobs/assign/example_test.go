package assign_test

import (
	"fmt"

	"github.com/ringfence/ringfence/jobs"
	"github.com/ringfence/ringfence/jobs/assign"
	"github.com/ringfence/ringfence/jobs/job"
)

// urgentFirst gives urgent jobs to the worker that has the fewest, and leaves the choice for others
// to another strategy.
type urgentFirst struct{ others assign.Strategy }

// Choose implements assign.Strategy.
func (u urgentFirst) Choose(s job.Status, all []assign.Load) int {
	if s.Priority < job.MaxPriority {
		return u.others.Choose(s, all)
	}
	fewest := 0
	for i, worker := range all {
		if worker.Jobs < all[fewest].Jobs {
			fewest = i
		}
	}
	return fewest
}

// A group of workers with a strategy of its own. By default a job goes to the worker with the
// smallest share of its limit in use.
func Example() {
	worker := jobs.Worker{Name: "host-7", Strategy: urgentFirst{assign.Default()}}

	small, large := assign.Load{Name: "small", Jobs: 1, Limit: 2}, assign.Load{
		Name: "large", Jobs: 3, Limit: 10}
	workers := []assign.Load{small, large}
	settle := job.Status{Kind: "settle"}
	fmt.Println(workers[worker.Strategy.Choose(settle, workers)].Name)
	settle.Priority = job.MaxPriority
	fmt.Println(workers[worker.Strategy.Choose(settle, workers)].Name)
	// Output:
	// large
	// small
}
