package fencetest

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// Each flaw must break all clauses about it. In a bubble a session timeout takes no time.
func TestTheContractFindsFlaws(t *testing.T) {
	for _, flaw := range flaws {
		if flaw.needs != nil && flaw.needs(memoryHarness(nil)) != "" {
			continue // TestEtcdFindsFlaws has it
		}
		for _, name := range append([]string{flaw.clause}, flaw.also...) {
			c := clauseNamed(t, name)
			if c.alone {
				continue // TestAStarvedTermThatIsTooLongIsFound
			}
			t.Run(flaw.name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := flawHarness(t)
					if name == flaw.clause {
						flaw.found(t, h)
					} else if _, failed := failureOf(t, c, flaw.on(h)); !failed {
						t.Error("it is not found")
					}
				})
			})
		}
	}
}

// The wrapper itself must be right, or it would be found for the wrong reason.
func TestACoordinatorWithoutAFlawPassesEveryClause(t *testing.T) {
	for _, c := range slices.Concat(clauses, faultClauses) {
		if c.alone {
			continue // busy loops stop a fake clock
		}
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t, new(flaw).on(flawHarness(t))) })
		})
	}
}

// The clause depends on when goroutines are woken, so on a busy machine one run may miss the flaw.
func TestAStarvedTermThatIsTooLongIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for session timeouts on the real clock")
	}
	c := clauseNamed(t, "a starved process knows whether it leads")
	found := false
	for _, flaw := range flaws {
		if slices.Contains(flaw.also, c.name) {
			found = true
			var failure string
			for tries := 0; !strings.Contains(failure, "when the next one has won"); tries++ {
				if tries == 5 {
					t.Fatalf("%q is not found: %s", flaw.name, failure)
				}
				failure, _ = failureOf(t, c, flaw.on(flawHarness(t)))
			}
		}
	}
	if !found {
		t.Error("there is no such flaw")
	}
}

// A clause that nothing can break is no clause.
func TestEveryClauseFindsAFlaw(t *testing.T) {
	found := map[string]bool{}
	for _, flaw := range flaws {
		for _, name := range append([]string{flaw.clause}, flaw.also...) {
			found[clauseNamed(t, name).name] = true
		}
	}
	for _, c := range slices.Concat(clauses, faultClauses) {
		if !found[c.name] {
			t.Errorf("no flaw breaks the clause %q", c.name)
		}
	}
}

func flawHarness(t *testing.T) Harness {
	m := NewMemory(memoryTimeout)
	leadOnce(t, m)
	h := memoryHarness(m)
	h.Elections = flawElections
	return h
}
