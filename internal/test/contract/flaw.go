package contract

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Flaw is one way to be wrong. A contract that never fails proves nothing, so each flaw names the
// clause that must find it.
type Flaw[S any] struct {
	Name   string
	Clause string // the clause that finds it soonest, as for Named
	// words of that clause's failure: failing for another reason proves nothing
	Says string
	Open func(testing.TB) S // makes a stage of an implementation with the flaw
}

const flawsAtOnce = 12 // they wait more than they work

// RunFlaws checks as subtests that the clauses find these flaws, several at once, beside the other
// parallel tests of the package.
func RunFlaws[S any](t *testing.T, clauses []Clause[S], flaws []Flaw[S]) {
	t.Parallel()
	slots := make(chan struct{}, flawsAtOnce)
	var all sync.WaitGroup
	for _, f := range flaws {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(f.Name, func(t *testing.T) { f.Found(t, clauses) })
		})
	}
	all.Wait()
}

// Found checks that the flaw's own clause fails, for the right reason. Where the machine stalls, a
// clause may fail earlier, for another reason, and what comes too late may hide a flaw, so it has
// three tries.
func (f Flaw[S]) Found(t testing.TB, clauses []Clause[S]) {
	t.Helper()
	c := Named(t, clauses, f.Clause)
	const tries = 3
	for try := 1; ; try++ {
		failure, failed := c.Fails(t, f.Open)
		if failed && strings.Contains(failure, f.Says) {
			return
		}
		miss := fmt.Sprintf("the clause %q does not find it", c.Name)
		if failed {
			miss = fmt.Sprintf("the clause %q should say %q, and says: %s", c.Name, f.Says, failure)
		}
		if try == tries {
			t.Fatal(miss)
		}
		t.Logf("try %d: %s", try, miss)
	}
}

// Fails runs the clause until its first failure, as FailureOf does.
func (c Clause[S]) Fails(t testing.TB, open func(testing.TB) S) (failure string, failed bool) {
	return FailureOf(t, func(t testing.TB) { c.Holds(open(t)) })
}

// EachFinds fails the test for each clause that is not among those that find a flaw: a clause that
// nothing can break is no clause.
func EachFinds[S any](t testing.TB, clauses []Clause[S], finding []string) {
	t.Helper()
	for _, c := range clauses {
		if !slices.Contains(finding, c.Name) {
			t.Errorf("no flaw breaks the clause %q", c.Name)
		}
	}
}
