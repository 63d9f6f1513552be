package fencetest

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/contract"
)

const (
	flawPatience  = 5 * time.Second
	flawElections = 12
)

// RunFlaws makes the coordinator wrong in many ways, one at a time, and checks that the contract
// finds each flaw: a contract that never fails proves nothing. The flaws are wrappers around the
// clients that the fixture opens. Each one is shown to the one clause that finds it at once, so all
// of them take less time than Run.
func RunFlaws(t *testing.T, f Fixture) {
	f.patience = f.SessionTimeout + flawPatience
	f.Elections = flawElections
	all := make([]contract.Flaw[*stage], len(flaws))
	for i := range flaws {
		all[i] = flaws[i].in(f)
	}
	contract.RunFlaws(t, clauses, all)
}

// in returns the flaw of a coordinator.
func (fl *flaw) in(f Fixture) contract.Flaw[*stage] {
	return contract.Flaw[*stage]{
		Name: fl.name, Clause: fl.clause, Says: fl.says,
		Open: func(t testing.TB) *stage {
			if fl.shows != nil && !fl.shows(f) {
				t.Skip("this fixture cannot show it")
			}
			return newStage(t, fl.on(f))
		},
	}
}
