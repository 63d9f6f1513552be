package checkpointtest

import (
	"slices"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// Fixture is one empty journal for one test. It closes what it opens in t.Cleanup.
type Fixture struct {
	Journal checkpoint.Journal // empty
	Second  checkpoint.Journal // the same storage as another process sees it, with its own connections

	// Lead makes a new leader of a resource, calls Journal.Raise for its claim, and returns the
	// claim. The previous leader is deposed and does not know it. Tokens that the fixture makes up
	// should be above 2^53.
	Lead func(t *testing.T, r fence.Resource) fence.Claim

	// Limit is the maximum size of a checkpoint in this journal, in bytes; 0 if it has none.
	Limit int
}

// Run checks a journal against the contract. It calls open once for each clause.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for _, c := range contract {
		t.Run(c.clause, func(t *testing.T) { c.holds(newKit(t, t, open(t))) })
	}
}

// check is one clause of the contract.
type check struct {
	clause string
	holds  func(k *kit)
}

var contract = slices.Concat(versionChecks, contentChecks, fenceChecks, takeoverChecks, forgetChecks,
	loadChecks, followChecks, concurrentChecks, endChecks, randomChecks)
