package checkpointtest

import (
	"slices"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/contract"
)

// Fixture is one empty journal for one test. It closes what it opens in t.Cleanup.
type Fixture struct {
	Journal checkpoint.Journal // empty
	Second  checkpoint.Journal // the same storage as another process sees it, with its own connections

	// Lead makes a new leader of a resource, calls Journal.Raise for its claim, and returns the
	// claim. The previous leader is deposed and does not know it. Tokens that the fixture makes up
	// should be above 2^53.
	Lead func(t testing.TB, r fence.Resource) fence.Claim

	// Limit is the maximum size of a checkpoint in this journal, in bytes; 0 if it has none.
	Limit int
}

// Run checks a journal against the contract. It calls open once for each clause.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	contract.Run(t, clauses, func(t *testing.T) *stage { return newStage(t, open(t), patience) })
}

var clauses = slices.Concat(versionClauses, contentClauses, fenceClauses, takeoverClauses,
	forgetClauses,
	loadClauses, followClauses, concurrentClauses, endClauses, randomClauses)
