// Package inject does things to a system, and undoes them: it begins and ends each fault of a
// scenario, finds out which processes a fault hits, and waits for what it waits for. It also writes
// what no worker writes (scenario.Stray, scenario.Spoil).
package inject

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ringfence/ringfence/lab/record"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

const (
	waitTime  = 40 * time.Second // for what a fault waits for
	undoTime  = 60 * time.Second // to begin or end a fault, such as a server's start
	closeTime = time.Second      // for one connection to ZooKeeper, which ends a session
	lookAgain = 20 * time.Millisecond
)

// Injector injects faults into one system.
type Injector struct {
	scenario.Scenario
	Time      time.Duration // how long Random lasts; 30 s when zero
	Unguarded bool          // the workers bypass the guard, without tokens

	sys system.System
	rec *record.Recorder
	rnd *rand.Rand

	mu     sync.Mutex
	down   map[string]bool            // workers that a fault has killed and will start again
	faults int                        // so far
	strays int                        // attempts of the lab itself
	held   map[scenario.Action]func() // each ends what hold began for an action
	late   *lateWrite                 // of scenario.Spoil
	stayed *stayed                    // of scenario.Stay
	forked *forked                    // of scenario.Fork
}

// New returns an injector for a scenario's system.
func New(s scenario.Scenario, sys system.System, rec *record.Recorder, seed uint64) *Injector {
	return &Injector{
		Scenario: s, sys: sys, rec: rec, rnd: rand.New(rand.NewPCG(seed, 1)),
		down: map[string]bool{}, held: map[scenario.Action]func(){},
	}
}
