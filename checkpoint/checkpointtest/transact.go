package checkpointtest

import (
	"context"
	"slices"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// Tx is a transaction of Memory: a list of effects.
type Tx struct{ values []string }

// Append adds an effect, which lands with the transaction.
func (tx *Tx) Append(value string) { tx.values = append(tx.values, value) }

// Effect is an effect that has landed.
type Effect struct {
	Token fence.Token // of the transaction
	Value string
}

// Transact runs work with an empty transaction and without a lock. The transaction and its
// checkpoint land only if the claim is still the mark when work returns.
func (m *Memory) Transact(
	ctx context.Context, c fence.Claim,
	work func(context.Context, *Tx) (checkpoint.Checkpoint, error),
) error {
	m.mu.Lock()
	err := m.admit(c)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	tx := new(Tx)
	cp, err := work(ctx, tx)
	if err != nil {
		return err
	}
	return m.call(ctx, Transact, cp, func() error { return m.land(c, cp, tx.effects(c)) })
}

func (tx *Tx) effects(c fence.Claim) []Effect {
	var all []Effect
	for _, v := range tx.values {
		all = append(all, Effect{c.Token, v})
	}
	return all
}

// Effects lists the effects in the order in which they landed.
func (m *Memory) Effects() []Effect {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.effects)
}
