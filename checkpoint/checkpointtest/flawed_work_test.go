package checkpointtest

import (
	"context"
	"errors"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// txFlaw is one way in which transactions can be wrong, with words of the clause that must find it.
type txFlaw struct {
	name, finds string
	transact    func(m *Memory, ctx context.Context, c fence.Claim, work work[*Tx]) error
}

// leak lands the effects of a transaction without its checkpoint.
func (m *Memory) leak(c fence.Claim, tx *Tx) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.effects = append(m.effects, tx.effects(c)...)
}

// watching calls after when the work has returned, with its transaction and error.
func watching(do work[*Tx], after func(tx *Tx, err error) error) work[*Tx] {
	return func(ctx context.Context, tx *Tx) (checkpoint.Checkpoint, error) {
		cp, err := do(ctx, tx)
		return cp, after(tx, err)
	}
}

var txFlaws = []txFlaw{
	{"has the effects of failed work", "Work that fails",
		func(m *Memory, ctx context.Context, c fence.Claim, do work[*Tx]) error {
			return m.Transact(ctx, c, watching(do, func(tx *Tx, err error) error {
				if err != nil {
					m.leak(c, tx)
				}
				return err
			}))
		}},
	{"lands failed work", "Work that fails", func(
		m *Memory, ctx context.Context, c fence.Claim, do work[*Tx],
	) error {
		return m.Transact(ctx, c, watching(do, func(*Tx, error) error { return nil }))
	}},
	{"replaces the work's error", "Work that fails",
		func(m *Memory, ctx context.Context, c fence.Claim, do work[*Tx]) error {
			return m.Transact(ctx, c, watching(do, func(_ *Tx, err error) error {
				if err != nil {
					return errors.New("the work failed")
				}
				return nil
			}))
		}},
	{"loses effects", "land together", func(
		m *Memory, ctx context.Context, c fence.Claim, do work[*Tx],
	) error {
		return m.Transact(ctx, c, watching(do, func(tx *Tx, err error) error {
			tx.values = nil
			return err
		}))
	}},
	{"commits the checkpoint after the effects", "A version conflict", aside},
	{"commits the checkpoint after the effects", "for one version exactly one", aside},
	{"commits the checkpoint after the effects", "of another resource", aside},
	{"commits the checkpoint after the effects", "An open transaction", aside},
	{"commits the checkpoint after the effects", "at random", aside},
	{"ignores the claim", "A claim that is not the mark",
		func(m *Memory, ctx context.Context, c fence.Claim, do work[*Tx]) error {
			return m.Transact(ctx, m.mark(c), do)
		}},
	{"checks the claim only before the work", "An open transaction",
		func(m *Memory, ctx context.Context, c fence.Claim, do work[*Tx]) error {
			if c != m.mark(c) {
				return m.Transact(ctx, c, do)
			}
			tx := new(Tx)
			cp, err := do(ctx, tx)
			if err != nil {
				return err
			}
			return m.land(m.mark(c), cp, tx.effects(c))
		}},
	{"loses a panic", "Work that panics", func(
		m *Memory, ctx context.Context, c fence.Claim, do work[*Tx],
	) error {
		defer func() { _ = recover() }()
		return m.Transact(ctx, c, do)
	}},
	{"lands what panicked", "Work that panics",
		func(m *Memory, ctx context.Context, c fence.Claim, do work[*Tx]) error {
			return m.Transact(ctx, c, func(
				ctx context.Context, tx *Tx,
			) (cp checkpoint.Checkpoint, err error) {
				defer func() {
					if v := recover(); v != nil {
						m.leak(c, tx)
						panic(v)
					}
				}()
				return do(ctx, tx)
			})
		}},
	{"says that nothing has landed when the context ends", "interrupted transaction",
		func(m *Memory, ctx context.Context, c fence.Claim, do work[*Tx]) error {
			err := m.Transact(context.Background(), c, do)
			time.Sleep(time.Millisecond)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}},
}

// aside lands the effects before the checkpoint.
func aside(m *Memory, ctx context.Context, c fence.Claim, do work[*Tx]) error {
	return m.Transact(ctx, c, watching(do, func(tx *Tx, err error) error {
		if err == nil {
			m.leak(c, tx)
			tx.values = nil
		}
		return err
	}))
}

// flawedWork is a Memory with wrong transactions.
type flawedWork struct {
	*Memory
	transact func(m *Memory, ctx context.Context, c fence.Claim, work work[*Tx]) error
}

func (f *flawedWork) Transact(
	ctx context.Context, c fence.Claim,
	do func(context.Context, *Tx) (checkpoint.Checkpoint, error),
) error {
	return f.transact(f.Memory, ctx, c, do)
}

// onePlace is a journal with room for one transaction. A raise waits for that transaction, and a
// panic occupies the room for ever.
type onePlace struct {
	*Memory
	place chan struct{}
}

func (o *onePlace) within(ctx context.Context, do func() error) error {
	select {
	case o.place <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	err := do()
	<-o.place
	return err
}

func (o *onePlace) Transact(
	ctx context.Context, c fence.Claim,
	do func(context.Context, *Tx) (checkpoint.Checkpoint, error),
) error {
	return o.within(ctx, func() error { return o.Memory.Transact(ctx, c, do) })
}

func (o *onePlace) Raise(ctx context.Context, c fence.Claim) error {
	return o.within(ctx, func() error { return o.Memory.Raise(ctx, c) })
}
