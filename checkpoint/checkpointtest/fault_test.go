package checkpointtest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
)

func TestFaultsLandAndAnswerAsTheySay(t *testing.T) {
	for _, c := range []struct {
		fault  Fault
		lands  bool
		hangs  bool
		answer error
	}{
		{None, true, false, nil},
		{OutOfReach, false, false, checkpoint.ErrTransient},
		{LostRequest, false, false, checkpoint.ErrUnknown},
		{LostReply, true, false, checkpoint.ErrUnknown},
		{HungRequest, false, true, checkpoint.ErrUnknown},
		{HungReply, true, true, checkpoint.ErrUnknown},
	} {
		for _, op := range []Op{Publish, Transact} {
			synctest.Test(t, func(t *testing.T) {
				m := NewMemory()
				claim := leading(m)(t, orders)
				m.Fail = func(at Op, cp checkpoint.Checkpoint) Fault {
					if at != op || cp.Version != 1 || cp.Task != nightly {
						t.Errorf("asked about %s of version %d of %s", at, cp.Version, cp.Task)
					}
					return c.fault
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				err := m.try(ctx, op, version(1, claim, nightly, "a"))
				if !errors.Is(err, c.answer) || (time.Since(start) == time.Hour) != c.hangs {
					t.Errorf("%s with fault %d: %v after %v", op, c.fault, err, time.Since(start))
				}
				if landed := m.at(nightly) == 1; landed != c.lands ||
					landed != (len(m.Effects()) == 1) && op == Transact {
					t.Errorf("%s with fault %d: landed is %v, the effects are %v", op, c.fault,
						landed, m.Effects())
				}
			})
		}
	}
}

// try publishes or transacts under the mark.
func (m *Memory) try(ctx context.Context, op Op, cp checkpoint.Checkpoint) error {
	claim := m.marks[cp.Resource]
	if op == Publish {
		return m.Publish(ctx, claim, cp)
	}
	return m.Transact(ctx, claim, func(_ context.Context, tx *Tx) (checkpoint.Checkpoint, error) {
		tx.Append("effect")
		return cp, nil
	})
}

func TestEffectsAreOfTheirTransactionsToken(t *testing.T) {
	m := NewMemory()
	lead := leading(m)
	var want []Effect
	for n := range int64(3) {
		claim := lead(t, orders)
		if err := m.try(t.Context(), Transact, version(n+1, claim, nightly, "a")); err != nil {
			t.Fatal(err)
		}
		want = append(want, Effect{claim.Token, "effect"})
	}
	got := m.Effects()
	if len(got) != len(want) || got[0] != want[0] || got[2] != want[2] {
		t.Errorf("the effects are %v, want %v", got, want)
	}
}
