package checkpointtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/contract"
)

// TransactorFixture is a Fixture with journals that are also checkpoint.Transactor[Tx].
type TransactorFixture[Tx any] struct {
	Fixture

	// Effect adds an effect with this value to the transaction, such as a row.
	Effect func(ctx context.Context, tx Tx, value string) error
	// Effects lists the values of all committed effects, in the order in which they were added.
	Effects func(t testing.TB) []string
}

// RunTransactor checks a journal with transactions against the contract of checkpoint.Transactor.
// Call Run too.
func RunTransactor[Tx any](t *testing.T, open func(t *testing.T) TransactorFixture[Tx]) {
	contract.Run(t, transactorClauses[Tx](), func(t *testing.T) *txStage[Tx] {
		return newTxStage(t, open(t), patience)
	})
}

func transactorClauses[Tx any]() []contract.Clause[*txStage[Tx]] {
	return []contract.Clause[*txStage[Tx]]{
		{Name: "Effects and checkpoint land together", Holds: landTogether[Tx]},
		{Name: "Work that fails leaves nothing, and its error comes back", Holds: failedWork[Tx]},
		{
			Name: "Work that panics leaves nothing, and the journal keeps working", Holds: panickingWork[Tx],
		},
		{Name: "A version conflict leaves nothing", Holds: conflictingWork[Tx]},
		{Name: "Of many transactions for one version exactly one lands", Holds: oneTransactionLands[Tx]},
		{Name: "A claim that is not the mark leaves nothing", Holds: powerlessWork[Tx]},
		{
			Name:  "A transaction above the limit or of another resource leaves nothing",
			Holds: misfitWork[Tx],
		},
		{Name: "An open transaction of an older leader does not delay a newer one, and does not land",
			Holds: openWhenDeposed[Tx]},
		{Name: "A transaction for a forgotten task leaves nothing", Holds: forgottenWork[Tx]},
		{
			Name:  "The error of an interrupted transaction is right about what landed",
			Holds: cutShortWork[Tx],
		},
		{Name: "Leaders that transact at random get the answers of the model", Holds: randomWork[Tx]},
	}
}

// txStage is a stage for transactions.
type txStage[Tx any] struct {
	*stage
	effect  func(ctx context.Context, tx Tx, value string) error
	effects func(t testing.TB) []string
}

func newTxStage[Tx any](
	t testing.TB, f TransactorFixture[Tx], patience time.Duration,
) *txStage[Tx] {
	return &txStage[Tx]{newStage(t, f.Fixture, patience), f.Effect, f.Effects}
}

// work is what a transaction does.
type work[Tx any] = func(ctx context.Context, tx Tx) (checkpoint.Checkpoint, error)

// transact makes one transaction, and repeats it as long as the journal returns ErrTransient.
func (k *txStage[Tx]) transact(j checkpoint.Journal, c fence.Claim, do work[Tx]) error {
	return k.patiently(func() error { return j.(checkpoint.Transactor[Tx]).Transact(k.ctx, c, do) })
}

// having returns work with these effects that returns this checkpoint and error.
func (k *txStage[Tx]) having(cp checkpoint.Checkpoint, end error, values ...string) work[Tx] {
	return func(ctx context.Context, tx Tx) (checkpoint.Checkpoint, error) {
		for _, v := range values {
			if err := k.effect(ctx, tx, v); err != nil {
				return checkpoint.Checkpoint{}, err
			}
		}
		return cp, end
	}
}

// commit must land.
func (k *txStage[Tx]) commit(
	c fence.Claim, cp checkpoint.Checkpoint, values ...string,
) checkpoint.Checkpoint {
	k.Helper()
	if err := k.transact(k.Journal, c, k.having(cp, nil, values...)); err != nil {
		k.Fatalf("transact version %d under %s: %v", cp.Version, c, err)
	}
	return cp
}

// left fails the test unless this checkpoint of nightly and these effects are stored.
func (k *txStage[Tx]) left(want checkpoint.Checkpoint, values ...string) {
	k.Helper()
	k.stays(nightly, want)
	if got := k.effects(k); !slices.Equal(got, values) {
		k.Fatalf("the effects are %q, want %q", got, values)
	}
}
