package checkpointtest

import (
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/internal/test/contract"
)

// Each flaw must break the clause about it: a contract that never fails proves nothing.
func TestTheContractFindsFlaws(t *testing.T) {
	for _, f := range flaws {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			contract.Flaw[*stage]{Clause: f.finds, Open: f.open(short)}.Found(t, clauses)
		})
	}
}

func TestTheContractOfTransactorsFindsFlaws(t *testing.T) {
	for _, f := range txFlaws {
		t.Run(f.name, func(t *testing.T) {
			found(t, f.finds, func(m *Memory) checkpoint.Journal { return &flawedWork{m, f.transact} })
		})
	}
	for _, finds := range []string{"An open transaction", "Work that panics"} {
		t.Run("has room for one transaction", func(t *testing.T) {
			found(t, finds, func(m *Memory) checkpoint.Journal {
				return &onePlace{m, make(chan struct{}, 1)}
			})
		})
	}
}

// found checks that a clause finds what is wrong with the transactions of a journal.
func found(t *testing.T, clause string, wrong func(*Memory) checkpoint.Journal) {
	contract.Flaw[*txStage[*Tx]]{Clause: clause, Open: func(t testing.TB) *txStage[*Tx] {
		m := NewMemory()
		j := wrong(m)
		f := transactingInMemory(inMemory(m), m)
		f.Journal, f.Second, f.Lead = j, j, leading(j)
		return newTxStage(t, f, short)
	}}.Found(t, transactorClauses[*Tx]())
}

// The random interleavings alone must find every flaw that breaks the promise itself.
func TestTheRandomInterleavingFindsWhatBreaksThePromise(t *testing.T) {
	for _, name := range []string{
		"publishes whatever is stored", "publishes the stored version again", "skips versions",
		"calls an older copy current when there is a newer one", "publishes under any claim",
		"takes under any claim",
		"compares tokens as floats", "admits a claim above the mark",
		"ignores the issuer", "lets any resource have a task",
		"forgets under any claim", "forgets the tasks of any resource", "forgets nothing",
		"continues a forgotten task",
	} {
		i := slices.IndexFunc(flaws, func(f flaw) bool { return f.name == name })
		random := contract.Clause[*stage]{Holds: randomInterleaving}
		if !slices.ContainsFunc(make([]int, 10), func(int) bool { // in ten runs at the most
			_, failed := random.Fails(t, flaws[i].open(patience))
			return failed
		}) {
			t.Errorf("a journal that %s passes", name)
		}
	}
}

// short is how long a clause in these tests waits for something that does not happen.
const short = 500 * time.Millisecond

// open makes a stage with a journal that has this flaw.
func (f flaw) open(patience time.Duration) func(testing.TB) *stage {
	return func(t testing.TB) *stage {
		m := NewMemory()
		fixture := inMemory(m)
		bad := &flawed{Memory: m, raise: m.Raise, take: m.TakeOver, publish: m.Publish, forget: m.Forget,
			load: m.Load, follow: m.Follow}
		f.in(bad)
		fixture.Journal, fixture.Second = bad, bad
		return newStage(t, fixture, patience)
	}
}
