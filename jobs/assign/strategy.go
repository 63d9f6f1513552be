// Package assign has the strategies by which a group chooses the worker for each job.
package assign

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/jobs/job"
)

// Load is a worker that has room for a job, as a Strategy sees it.
type Load struct {
	ID    fence.Token
	Name  string
	Jobs  int // that it has now
	Limit int // how many it may have
}

// Strategy chooses the worker for each job. The group's leader alone calls it, for one job after
// the other.
type Strategy interface {
	// Choose returns the index of one of these places, of which there is at least one. They are in
	// order of ID.
	Choose(job.Status, []Load) int
}

// strategies are those that have a name.
var strategies = map[string]func() Strategy{
	"least-loaded": func() Strategy { return leastLoaded{} },
	"round-robin":  func() Strategy { return &roundRobin{} },
	"random":       func() Strategy { return random{} },
}

// Names returns the names of the strategies.
func Names() []string { return slices.Sorted(maps.Keys(strategies)) }

// Named returns a strategy: random, round-robin, or least-loaded, which takes the worker with
// the smallest share of its limit in use.
func Named(name string) (Strategy, error) {
	make, known := strategies[name]
	if !known {
		return nil, fmt.Errorf("there is no strategy %q; there is %q", name, Names())
	}
	return make(), nil
}

type random struct{}

func (random) Choose(_ job.Status, all []Load) int { return rand.IntN(len(all)) }

// roundRobin takes the next worker after the last one that it took.
type roundRobin struct{ last fence.Token }

func (r *roundRobin) Choose(_ job.Status, all []Load) int {
	i := max(0, slices.IndexFunc(all, func(p Load) bool { return p.ID > r.last }))
	r.last = all[i].ID
	return i
}

type leastLoaded struct{}

func (leastLoaded) Choose(_ job.Status, all []Load) int {
	least := 0
	for i, p := range all {
		if p.Jobs*all[least].Limit < all[least].Jobs*p.Limit {
			least = i
		}
	}
	return least
}

// Default is least-loaded.
func Default() Strategy { return leastLoaded{} }
