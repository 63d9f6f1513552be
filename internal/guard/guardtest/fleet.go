package guardtest

import (
	"math/rand/v2"
	"sync"
)

// Fleet is several guards of one database. Replace is a fault for Histories.
type Fleet[G interface{ Stop() }] struct {
	start func() G

	mu     sync.Mutex
	guards []G
}

// NewFleet starts n guards.
func NewFleet[G interface{ Stop() }](n int, start func() G) *Fleet[G] {
	f := &Fleet[G]{start: start}
	for range n {
		f.guards = append(f.guards, start())
	}
	return f
}

// Pick returns one of the guards.
func (f *Fleet[G]) Pick(r *rand.Rand) G {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.guards[r.IntN(len(f.guards))]
}

// Replace starts another guard and stops one of the others, whose clients lose their connections.
func (f *Fleet[G]) Replace(r *rand.Rand) {
	fresh := f.start()
	f.mu.Lock()
	i := r.IntN(len(f.guards))
	old := f.guards[i]
	f.guards[i] = fresh
	f.mu.Unlock()
	old.Stop()
}
