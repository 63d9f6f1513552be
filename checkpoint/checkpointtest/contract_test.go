package checkpointtest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
)

// Each flaw must break the clause about it: a contract that never fails proves nothing.
func TestTheContractFindsFlaws(t *testing.T) {
	for _, f := range flaws {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			c := find(t, contract, f.finds, func(c check) string { return c.clause })
			if !fails(t, func(w *witness) { c.holds(newKitWithin(w, t, f.fixture(), short)) }) {
				t.Errorf("not found by %q", c.clause)
			}
		})
	}
}

func TestTheContractOfTransactorsFindsFlaws(t *testing.T) {
	for _, f := range txFlaws {
		t.Run(f.name, func(t *testing.T) {
			m := NewMemory()
			fails := failsTransacting(t, f.finds, m, &flawedWork{m, f.transact})
			if !fails {
				t.Errorf("not found by %q", f.finds)
			}
		})
	}
	for _, finds := range []string{"An open transaction", "Work that panics"} {
		t.Run("has room for one transaction", func(t *testing.T) {
			m := NewMemory()
			if !failsTransacting(t, finds, m, &onePlace{m, make(chan struct{}, 1)}) {
				t.Errorf("not found by %q", finds)
			}
		})
	}
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
		f := find(t, flaws, name, func(f flaw) string { return f.name })
		if !slices.ContainsFunc(make([]int, 10), func(int) bool { // in ten runs at the most
			return fails(t, func(w *witness) {
				randomInterleaving(newKitWithin(w, t, f.fixture(), patience))
			})
		}) {
			t.Errorf("a journal that %s passes", name)
		}
	}
}

// short is how long a check in these tests waits for something that does not happen.
const short = 500 * time.Millisecond

// find returns the first clause that contains these words.
func find[T any](t *testing.T, all []T, words string, of func(T) string) T {
	t.Helper()
	for _, one := range all {
		if strings.Contains(of(one), words) {
			return one
		}
	}
	t.Fatalf("there is no %q", words)
	panic("unreachable")
}

// fixture makes a journal with this flaw.
func (f flaw) fixture() Fixture {
	m := NewMemory()
	fixture := inMemory(m)
	bad := &flawed{Memory: m, raise: m.Raise, take: m.Take, publish: m.Publish, forget: m.Forget,
		load: m.Load, follow: m.Follow}
	f.in(bad)
	fixture.Journal, fixture.Second = bad, bad
	return fixture
}

func failsTransacting(t *testing.T, finds string, m *Memory, j checkpoint.Journal) bool {
	f := transactingInMemory(inMemory(m), m)
	f.Journal, f.Second, f.Lead = j, j, leading(j)
	c := find(t, transactorContract[*Tx](), finds, func(c txCheck[*Tx]) string {
		return c.clause
	})
	return fails(t, func(w *witness) { c.holds(newTxKit(newKitWithin(w, t, f.Fixture, short), f)) })
}

// fails reports whether a check fails.
func fails(t *testing.T, holds func(w *witness)) bool {
	w := &witness{TB: t}
	done := make(chan struct{})
	go func() { // FailNow ends the goroutine of the check, not ours
		defer close(done)
		holds(w)
	}()
	<-done
	return w.failed.Load()
}

// witness is a testing.TB that only records failures.
type witness struct {
	testing.TB
	failed atomic.Bool
}

func (w *witness) Error(args ...any) { w.Errorf("%s", fmt.Sprint(args...)) }
func (w *witness) Errorf(format string, args ...any) {
	w.failed.Store(true)
	w.TB.Logf(format, args...)
}
func (w *witness) Fatal(args ...any)                 { w.Fatalf("%s", fmt.Sprint(args...)) }
func (w *witness) Fatalf(format string, args ...any) { w.Errorf(format, args...); runtime.Goexit() }
func (w *witness) Skip(...any)                       { runtime.Goexit() }
func (w *witness) Logf(string, ...any)               {}
func (w *witness) Helper()                           {}
