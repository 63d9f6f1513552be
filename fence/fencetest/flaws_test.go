package fencetest

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/internal/test/contract"
)

const starves = "a starved process knows whether it leads"

// Each flaw must break all clauses about it. In a bubble a session timeout takes no time.
func TestTheContractFindsFlaws(t *testing.T) {
	for i := range flaws {
		for _, name := range append([]string{flaws[i].clause}, flaws[i].also...) {
			if name == starves {
				continue // TestAStarvedTermThatIsTooLongIsFound
			}
			t.Run(flaws[i].name+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := flaws[i].in(flawFixture(t))
					if name != f.Clause {
						f.Clause, f.Says = name, "" // it may fail in any way
					}
					f.Found(t, clauses)
				})
			})
		}
	}
}

// The wrapper itself must be right, or it would be found for the wrong reason.
func TestACoordinatorWithoutAFlawPassesEveryClause(t *testing.T) {
	inBubbles(t, func(t *testing.T) *stage { return newStage(t, new(flaw).on(flawFixture(t))) })
}

// inBubbles runs each clause in a bubble of its own, except the one whose busy loops stop a fake
// clock.
func inBubbles(t *testing.T, open func(t *testing.T) *stage) {
	for _, c := range clauses {
		if c.Name != starves {
			t.Run(c.Name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c.Holds(open(t)) })
			})
		}
	}
}

// The clause depends on when goroutines are woken, so on a busy machine one run may miss the flaw.
func TestAStarvedTermThatIsTooLongIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for session timeouts on the real clock")
	}
	found := false
	for i := range flaws {
		for _, name := range flaws[i].also {
			if name == starves {
				found = true
				var failure string
				for tries := 0; !strings.Contains(failure, "when the next one has won"); tries++ {
					if tries == 5 {
						t.Fatalf("%q is not found: %s", flaws[i].name, failure)
					}
					failure, _ = contract.Named(t, clauses, name).Fails(t, flaws[i].in(flawFixture(t)).Open)
				}
			}
		}
	}
	if !found {
		t.Error("there is no such flaw")
	}
}

func TestEveryClauseFindsAFlaw(t *testing.T) {
	var finding []string
	for _, flaw := range flaws {
		finding = append(append(finding, flaw.clause), flaw.also...)
	}
	for _, name := range finding {
		contract.Named(t, clauses, name)
	}
	contract.EachFinds(t, clauses, finding)
}

func flawFixture(t *testing.T) Fixture {
	m := NewMemory(memoryTimeout)
	leadOnce(t, m)
	f := memoryFixture(m)
	f.Elections = flawElections
	return f
}
