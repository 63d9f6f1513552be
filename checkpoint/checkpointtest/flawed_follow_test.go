package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

var followFlaws = []flaw{
	{"shows one checkpoint and never wakes", "then newer ones of any process",
		following(func(shown int, _ checkpoint.Checkpoint) bool {
			return shown == 0
		})},
	{"shows nothing until something is new", "Follow shows the checkpoint that is there",
		func(f *flawed) {
			f.follow = func(
				ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
			) error {
				first := f.at(task)
				return f.Memory.Follow(ctx, task, func(cp checkpoint.Checkpoint) error {
					if cp.Version <= first {
						return nil
					}
					return each(cp)
				})
			}
		}},
	{"does not show a first checkpoint", "first checkpoint",
		following(func(_ int, cp checkpoint.Checkpoint) bool {
			return cp.Version > 1
		})},
	{"shows a checkpoint twice", "Follow shows the checkpoint that is there", func(f *flawed) {
		f.follow = func(
			ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
		) error {
			return f.Memory.Follow(ctx, task, func(cp checkpoint.Checkpoint) error {
				if err := each(cp); err != nil {
					return err
				}
				return each(cp)
			})
		}
	}},
	{"shows other tasks", "Follow shows one task", func(f *flawed) {
		f.follow = func(
			ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
		) error {
			return f.Memory.Follow(ctx, task, func(cp checkpoint.Checkpoint) error {
				other, err := f.Memory.Load(ctx, hourly)
				if err == nil && len(other) == 1 {
					err = each(other[0])
				}
				return errors.Join(err, each(cp))
			})
		}
	}},
	{"follows one leader", "under any leader", func(f *flawed) {
		var first fence.Token
		f.follow = func(
			ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
		) error {
			return f.Memory.Follow(ctx, task, func(cp checkpoint.Checkpoint) error {
				if first == 0 {
					first = cp.Token
				}
				if cp.Token != first {
					return nil
				}
				return each(cp)
			})
		}
	}},
	{"wakes one follower", "Many follow at once", func(f *flawed) {
		var once sync.Mutex
		f.follow = func(
			ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
		) error {
			if !once.TryLock() {
				<-ctx.Done()
				return ctx.Err()
			}
			defer once.Unlock()
			return f.Memory.Follow(ctx, task, each)
		}
	}},
	{"continues after its callback has failed", "what its callback returns", func(f *flawed) {
		f.follow = func(
			ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
		) error {
			return f.Memory.Follow(ctx, task, func(cp checkpoint.Checkpoint) error {
				_ = each(cp)
				return nil
			})
		}
	}},
	{"replaces its callback's error", "what its callback returns", func(f *flawed) {
		f.follow = func(
			ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
		) error {
			return fmt.Errorf("%v", f.Memory.Follow(ctx, task, each))
		}
	}},
	{"ends without an error", "Follow ends with its context", func(f *flawed) {
		f.follow = func(
			ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
		) error {
			_ = f.Memory.Follow(ctx, task, each)
			return nil
		}
	}},
}

// following shows only the checkpoints that pass.
func following(passes func(shown int, cp checkpoint.Checkpoint) bool) func(f *flawed) {
	return func(f *flawed) {
		f.follow = func(
			ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
		) error {
			shown := 0
			return f.Memory.Follow(ctx, task, func(cp checkpoint.Checkpoint) error {
				if !passes(shown, cp) {
					return nil
				}
				shown++
				return each(cp)
			})
		}
	}
}
