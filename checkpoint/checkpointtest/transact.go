package checkpointtest

import (
	"context"
	"slices"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// Tx is a transaction of Memory: a list of effects.
type Tx struct{ values []string }

// Append has an effect, which lands when the transaction does.
func (tx *Tx) Append(value string) { tx.values = append(tx.values, value) }

// Effect is an effect that has landed.
type Effect struct {
	Token fence.Token // whose transaction it was
	Value string
}

// Transact runs work with an empty transaction and no lock. It lands with the checkpoint only if
// the claim is the mark at the end too.
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

// Effects lists what has landed, in the order in which it did.
func (m *Memory) Effects() []Effect {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.effects)
}
