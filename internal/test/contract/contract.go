// Package contract is the frame of the contract suites: clauses that every implementation must
// keep, and flaws that the clauses must find.
//
//	var clauses = []contract.Clause[*stage]{{Name: "tokens rise", Holds: tokensRise}}
//
//	func Run(t *testing.T, f Fixture) {
//		contract.Run(t, clauses, func(t *testing.T) *stage { return newStage(t, f) })
//	}
//
// A stage is what a clause works with: a fixture, which connects the contract to an implementation,
// a context, and steps that fail the test. Each clause has a stage of its own. A clause that the
// fixture cannot run skips itself.
package contract

import (
	"slices"
	"strings"
	"testing"
)

// Clause is one sentence of a contract. S is the stage on which it is played.
type Clause[S any] struct {
	Name  string
	Holds func(S)
	Alone bool // no other clause runs meanwhile
}

// Run runs each clause as a subtest, one after the other. open makes a stage.
func Run[S any](t *testing.T, clauses []Clause[S], open func(*testing.T) S) {
	for _, c := range clauses {
		t.Run(c.Name, func(t *testing.T) { c.Holds(open(t)) })
	}
}

// RunParallel is Run with all clauses side by side, and beside the other parallel tests of the
// package. Clauses that must be alone run first.
func RunParallel[S any](t *testing.T, clauses []Clause[S], open func(*testing.T) S) {
	run := func(c Clause[S], parallel bool) {
		t.Run(c.Name, func(t *testing.T) {
			if parallel {
				t.Parallel()
			}
			c.Holds(open(t))
		})
	}
	for _, c := range clauses {
		if c.Alone {
			run(c, false)
		}
	}
	t.Parallel()
	for _, c := range clauses {
		if !c.Alone {
			run(c, true)
		}
	}
}

// Named returns the clause with this name, or the only one whose name contains these words.
func Named[S any](t testing.TB, clauses []Clause[S], words string) Clause[S] {
	t.Helper()
	if i := slices.IndexFunc(clauses, func(c Clause[S]) bool { return c.Name == words }); i >= 0 {
		return clauses[i]
	}
	var found []Clause[S]
	for _, c := range clauses {
		if strings.Contains(c.Name, words) {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d clauses %q", len(found), words)
	}
	return found[0]
}
