package checkpointtest

import (
	"slices"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// Fixture is one empty journal for one test. What it opens ends in t.Cleanup.
type Fixture struct {
	Journal checkpoint.Journal // empty
	Second  checkpoint.Journal // the same storage as another process sees it, with its own connections

	// Lead makes a new leader of a resource and returns its claim, for which Journal.Raise has been
	// called. The leader before it is deposed from then on, without being told. Tokens that the
	// fixture invents should be above 2^53.
	Lead func(t *testing.T, r fence.Resource) fence.Claim

	// Limit is how many bytes a checkpoint may have in this journal; 0: no limit of its own.
	Limit int
}

// Run holds a journal to the contract. open is called once for each sentence of it.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, c := range contract {
		t.Run(c.sentence, func(t *testing.T) { c.holds(newKit(t, t, open(t))) })
	}
}

// check is one sentence of the contract.
type check struct {
	sentence string
	holds    func(k *kit)
}

var contract = slices.Concat(versionChecks, contentChecks, fenceChecks, takeoverChecks, loadChecks,
	followChecks, concurrentChecks, endChecks, randomChecks)
