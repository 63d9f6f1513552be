package markstest

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/contract"
)

func TestTheModelKeepsTheContract(t *testing.T) {
	Run(t, func(testing.TB) Fixture { return NewModel().Fixture() })
}

// A store may remove the records of ended sessions whenever it likes, as Postgres' does every
// minute.
func TestTheRandomInterleavingAllowsAStoreToSweep(t *testing.T) {
	for range 20 {
		m := NewModel()
		f := m.Fixture()
		f.Store = sweeper{m}
		randomInterleaving(newStage(t, f))
	}
}

// sweeper is a model that sweeps before each registration.
type sweeper struct{ *Model }

// Register implements marks.Store.
func (s sweeper) Register(
	ctx context.Context, session marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	s.Sweep()
	return s.Model.Register(ctx, session, claims)
}

func TestTheContractFindsFlaws(t *testing.T) {
	for _, one := range []struct {
		flaw         flaw
		clause, says string
	}{
		{admitsBesideOthers, "have to be revoked before anybody is admitted", "want MustRevoke"},
		{raiseLowers, "never lowers", "got <nil>, want a refusal"},
		{forgetsOnly, "ends real sessions", "can still write"},
		{releasesLive, "keeps the record of a session that still lives", "the record of a live session " +
			"was dropped"},
		{releasesAlike, "of several sessions", "recorded 0 and 0 sessions"},
		{adoptSpares, "Adopt ends every session", "can still write"},
		{comparesFloats, "differ in the last digit", "want MustRaise"},
		{comparesText, "more digits are higher", "10 is older than the mark 9"},
		{raisesLate, "does not count after a restart", "confirmed 1 times"},
		{takesAnyRun, "of another run", "got <nil>"},
		{forgetsCandidates, "A mark belongs to a candidate", "want MustRaise"},
		{forgetsRollback, "A coordinator that was rolled back is refused for good", "RolledBack:false"},
	} {
		t.Run(string(one.flaw), func(t *testing.T) {
			contract.Flaw[*stage]{Clause: one.clause, Says: one.says, Open: one.flaw.open}.Found(t, clauses)
		})
	}
}

// The random interleaving has to find by itself the flaws that break the main promise. One run may
// miss a flaw by chance; about one in ten misses the rarest.
func TestTheRandomInterleavingFindsFlawsThatBreakThePromise(t *testing.T) {
	for _, flaw := range []flaw{admitsBesideOthers, forgetsOnly, releasesLive} {
		found := false
		for n := 0; n < 20 && !found; n++ {
			_, found = randomClauses[0].Fails(t, flaw.open)
		}
		if !found {
			t.Errorf("a store that %s passes 20 runs", flaw)
		}
	}
}

// open makes a stage with a Model that has the flaw.
func (f flaw) open(t testing.TB) *stage {
	m := NewModel()
	m.flaw = f
	return newStage(t, m.Fixture())
}
