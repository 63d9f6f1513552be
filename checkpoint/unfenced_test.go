package checkpoint_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/fence"
)

// With a journal that breaks its contract the same test has to fail; otherwise it proves nothing.
func TestWithoutTheFenceTheTaskGoesWrong(t *testing.T) {
	for name, journal := range map[string]func(*checkpointtest.Memory) checkpoint.Journal{
		"no fence": func(m *checkpointtest.Memory) checkpoint.Journal {
			return &unfenced{Memory: m}
		},
		"no fence and no version": func(m *checkpointtest.Memory) checkpoint.Journal {
			return &unconditional{unfenced{Memory: m}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := map[string]int{}
			for _, seed := range seeds(t, 50) {
				synctest.Test(t, func(t *testing.T) {
					if err := newSuccession(seed, journal).play(); err != nil {
						wrong[fmt.Sprintf("%.40s", err)]++
					}
				})
			}
			if len(wrong) == 0 {
				t.Error("nothing went wrong")
			}
			t.Log(wrong)
		})
	}
}

// unfenced treats every claim as if it were the mark.
type unfenced struct {
	*checkpointtest.Memory
	mu   sync.Mutex
	mark fence.Claim
}

func (u *unfenced) Raise(ctx context.Context, c fence.Claim) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.mark = c
	return u.Memory.Raise(ctx, c)
}

func (u *unfenced) newest() fence.Claim {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mark
}

func (u *unfenced) TakeOver(
	ctx context.Context, _ fence.Claim, task checkpoint.Name, have int64,
) (checkpoint.Checkpoint, bool, error) {
	return u.Memory.TakeOver(ctx, u.newest(), task, have)
}

func (u *unfenced) Publish(ctx context.Context, _ fence.Claim, cp checkpoint.Checkpoint) error {
	return u.Memory.Publish(ctx, u.newest(), cp)
}

func (u *unfenced) Transact(
	ctx context.Context, _ fence.Claim,
	work func(context.Context, *checkpointtest.Tx) (checkpoint.Checkpoint, error),
) error {
	return u.Memory.Transact(ctx, u.newest(), work)
}

// unconditional overwrites whatever is stored.
type unconditional struct{ unfenced }

// over gives cp the version after the stored one.
func (u *unconditional) over(cp checkpoint.Checkpoint) checkpoint.Checkpoint {
	if stored, _ := u.Load(context.Background(), cp.Task); len(stored) > 0 {
		cp.Version = stored[0].Version + 1
	}
	return cp
}

func (u *unconditional) Publish(
	ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint,
) error {
	return u.unfenced.Publish(ctx, c, u.over(cp))
}

func (u *unconditional) Transact(
	ctx context.Context, c fence.Claim,
	work func(context.Context, *checkpointtest.Tx) (checkpoint.Checkpoint, error),
) error {
	return u.unfenced.Transact(ctx, c, func(
		ctx context.Context, tx *checkpointtest.Tx,
	) (checkpoint.Checkpoint, error) {
		cp, err := work(ctx, tx)
		return u.over(cp), err
	})
}
