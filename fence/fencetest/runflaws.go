package fencetest

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/witness"
)

const (
	flawsAtOnce   = 12 // they wait more than they work
	flawPatience  = 5 * time.Second
	flawElections = 12
)

// RunFlaws makes the coordinator wrong in many ways, one at a time, and checks that the contract
// finds each flaw: a contract that never fails proves nothing. The flaws are wrappers around the
// clients that the harness opens. Each one is shown to the one clause that finds it at once, so all
// of them take less time than Run.
func RunFlaws(t *testing.T, h Harness) {
	h.patience = h.SessionTimeout + flawPatience
	h.Elections = flawElections
	slots := make(chan struct{}, flawsAtOnce)
	var all sync.WaitGroup
	for i := range flaws {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(flaws[i].name, func(t *testing.T) { flaws[i].found(t, h) })
		})
	}
	all.Wait()
}

// found checks that the flaw's own clause fails, for the right reason.
func (fl *flaw) found(t *testing.T, h Harness) {
	c := clauseNamed(t, fl.clause)
	for _, needs := range []func(Harness) string{c.needs, fl.needs} {
		if needs != nil && needs(h) != "" {
			t.Skipf("the harness has no %s", needs(h))
		}
	}
	const tries = 3 // where the machine stalls, a clause may fail earlier, for another reason
	for try := 1; ; try++ {
		failure, failed := failureOf(t, c, fl.on(h))
		switch {
		case failed && strings.Contains(failure, fl.says):
			return
		case !failed:
			t.Fatalf("the clause %q does not find it", c.name)
		case try == tries:
			t.Fatalf("the clause %q should say %q, and says: %s", c.name, fl.says, failure)
		}
		t.Logf("try %d: %s", try, failure)
	}
}

func clauseNamed(t testing.TB, name string) check {
	t.Helper()
	all := slices.Concat(clauses, faultClauses)
	i := slices.IndexFunc(all, func(c check) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("there is no clause %q", name)
	}
	return all[i]
}

// failureOf runs a clause until its first failure, and returns that.
func failureOf(t testing.TB, c check, h Harness) (failure string, failed bool) {
	return witness.FailureOf(t, func(t testing.TB) { c.run(t, h) })
}
