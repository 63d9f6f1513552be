package markstest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

func TestTheModelKeepsTheContract(t *testing.T) {
	Run(t, Harness{Open: func(testing.TB) Instance { return NewModel().Instance() }})
}

// A store may remove the records of ended sessions whenever it likes, as Postgres' does every minute.
func TestTheRandomInterleavingAllowsAStoreToSweep(t *testing.T) {
	for range 20 {
		m := NewModel()
		i := m.Instance()
		i.Store = sweeper{m}
		randomInterleaving(newKit(t, i))
	}
}

// sweeper is a model that sweeps before each registration.
type sweeper struct{ *Model }

// Register implements marks.Store.
func (s sweeper) Register(
	ctx context.Context, session marks.Session, claims []fence.Claim,
) (marks.Registration, error) {
	s.Sweep()
	return s.Model.Register(ctx, session, claims)
}

// Each flaw must make at least one sentence of the contract fail, among them the one that is about
// it.
func TestTheContractFindsFlaws(t *testing.T) {
	for flaw, finds := range map[flaw]string{
		admitsBesideOthers: "have to be revoked before anybody is admitted",
		raiseLowers:        "never lowers",
		forgetsOnly:        "ends real sessions",
		releasesLive:       "keeps the record of a session that still lives",
		releasesAlike:      "of several sessions",
		adoptSpares:        "Adopt ends every session",
		comparesFloats:     "differ in the last digit",
		comparesText:       "more digits are higher",
		raisesLate:         "does not count after a restart",
		takesAnyRun:        "of another run",
		forgetsCandidates:  "A mark belongs to a candidate",
		forgetsRollback:    "A coordinator that was rolled back is refused for good",
	} {
		t.Run(string(flaw), func(t *testing.T) {
			var failed []string
			for _, c := range contract {
				if fails(t, c, flaw) {
					failed = append(failed, c.sentence)
				}
			}
			if !strings.Contains(strings.Join(failed, "\n"), finds) {
				t.Errorf("%d sentences fail, but not %q:\n%s",
					len(failed), finds, strings.Join(failed, "\n"))
			}
		})
	}
}

// The random interleaving has to find by itself the flaws that break the main promise. One run may
// miss a flaw by chance; about one in ten misses the rarest.
func TestTheRandomInterleavingFindsFlawsThatBreakThePromise(t *testing.T) {
	for _, flaw := range []flaw{admitsBesideOthers, forgetsOnly, releasesLive} {
		found := false
		for n := 0; n < 20 && !found; n++ {
			found = fails(t, randomChecks[0], flaw)
		}
		if !found {
			t.Errorf("a store that %s passes 20 runs", flaw)
		}
	}
}

// fails runs one check on a flawed model.
func fails(t *testing.T, c check, f flaw) bool {
	m := NewModel()
	m.flaw = f
	w := &witness{TB: t}
	done := make(chan struct{})
	go func() { // FailNow ends the goroutine that calls it
		defer close(done)
		c.holds(newKit(w, m.Instance()))
	}()
	<-done
	return w.failed.Load()
}

// witness is a testing.TB that only records whether the test has failed.
type witness struct {
	testing.TB
	failed atomic.Bool
}

func (w *witness) Error(...any)          { w.failed.Store(true) }
func (w *witness) Errorf(string, ...any) { w.failed.Store(true) }
func (w *witness) Fatal(args ...any)     { w.Fatalf("%s", fmt.Sprint(args...)) }
func (w *witness) Fatalf(string, ...any) { w.failed.Store(true); runtime.Goexit() }
func (w *witness) Skip(...any)           { runtime.Goexit() }
func (w *witness) Logf(string, ...any)   {}
func (w *witness) Log(...any)            {}
func (w *witness) Helper()               {}
func (w *witness) Failed() bool          { return w.failed.Load() }
