package checkpointtest

import (
	"context"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// TransactorFixture is a Fixture with journals that are also checkpoint.Transactor[Tx].
type TransactorFixture[Tx any] struct {
	Fixture

	// Effect adds an effect with this value to the transaction, such as a row.
	Effect func(ctx context.Context, tx Tx, value string) error
	// Effects lists the values of all committed effects, in the order in which they were added.
	Effects func(t *testing.T) []string
}

// RunTransactor checks a journal with transactions against the contract of checkpoint.Transactor.
// Call Run too.
func RunTransactor[Tx any](t *testing.T, open func(t *testing.T) TransactorFixture[Tx]) {
	for _, c := range transactorContract[Tx]() {
		t.Run(c.clause, func(t *testing.T) {
			f := open(t)
			c.holds(newTxKit(newKit(t, t, f.Fixture), f))
		})
	}
}

// txCheck is one clause of the transactors' contract.
type txCheck[Tx any] struct {
	clause string
	holds  func(k *txKit[Tx])
}

func transactorContract[Tx any]() []txCheck[Tx] {
	return []txCheck[Tx]{
		{"Effects and checkpoint land together", landTogether[Tx]},
		{"Work that fails leaves nothing, and its error comes back", failedWork[Tx]},
		{"Work that panics leaves nothing, and the journal keeps working", panickingWork[Tx]},
		{"A version conflict leaves nothing", conflictingWork[Tx]},
		{"Of many transactions for one version exactly one lands", oneTransactionLands[Tx]},
		{"A claim that is not the mark leaves nothing", powerlessWork[Tx]},
		{"A transaction above the limit or of another resource leaves nothing", misfitWork[Tx]},
		{"An open transaction of an older leader does not delay a newer one, and does not land",
			openWhenDeposed[Tx]},
		{"A transaction for a forgotten task leaves nothing", forgottenWork[Tx]},
		{"The error of an interrupted transaction is right about what landed", cutShortWork[Tx]},
		{"Leaders that transact at random get the answers of the model", randomWork[Tx]},
	}
}

// txKit is a kit for transactions.
type txKit[Tx any] struct {
	*kit
	effect  func(ctx context.Context, tx Tx, value string) error
	effects func(t *testing.T) []string
}

func newTxKit[Tx any](k *kit, f TransactorFixture[Tx]) *txKit[Tx] {
	return &txKit[Tx]{k, f.Effect, f.Effects}
}

// work is what a transaction does.
type work[Tx any] = func(ctx context.Context, tx Tx) (checkpoint.Checkpoint, error)

// transact makes one transaction, and repeats it as long as the journal returns ErrTransient.
func (k *txKit[Tx]) transact(j checkpoint.Journal, c fence.Claim, do work[Tx]) error {
	return k.patiently(func() error { return j.(checkpoint.Transactor[Tx]).Transact(k.ctx, c, do) })
}

// having returns work with these effects that returns this checkpoint and error.
func (k *txKit[Tx]) having(cp checkpoint.Checkpoint, end error, values ...string) work[Tx] {
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
func (k *txKit[Tx]) commit(
	c fence.Claim, cp checkpoint.Checkpoint, values ...string,
) checkpoint.Checkpoint {
	k.Helper()
	if err := k.transact(k.Journal, c, k.having(cp, nil, values...)); err != nil {
		k.Fatalf("transact version %d under %s: %v", cp.Version, c, err)
	}
	return cp
}

// left fails the test unless this checkpoint of nightly and these effects are stored.
func (k *txKit[Tx]) left(want checkpoint.Checkpoint, values ...string) {
	k.Helper()
	k.stays(nightly, want)
	if got := k.effects(k.t); !slices.Equal(got, values) {
		k.Fatalf("the effects are %q, want %q", got, values)
	}
}
