package checkpointtest

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// mistaking publishes and takes under another claim.
func mistaking(as func(c, mark fence.Claim) fence.Claim) func(f *flawed) {
	return func(f *flawed) {
		mistakingTake(as)(f)
		mistakingPublish(as)(f)
	}
}

func mistakingTake(as func(c, mark fence.Claim) fence.Claim) func(f *flawed) {
	return func(f *flawed) {
		f.take = func(
			ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
		) (checkpoint.Checkpoint, bool, error) {
			return f.Memory.TakeOver(ctx, as(c, f.mark(c)), task, have)
		}
	}
}

func mistakingPublish(as func(c, mark fence.Claim) fence.Claim) func(f *flawed) {
	return func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			err := f.Memory.Publish(ctx, as(c, f.mark(c)), cp)
			for mark := f.mark(c); errors.Is(err, fence.ErrStale) && as(c, mark) == mark; mark = f.mark(c) {
				err = f.Memory.Publish(ctx, mark, cp) // the mark was raised meanwhile
			}
			return err
		}
	}
}

func theMark(_, mark fence.Claim) fence.Claim { return mark }

var fenceFlaws = []flaw{
	{"publishes under any claim", "deposed leader can neither publish, take nor forget",
		mistakingPublish(theMark)},
	{"publishes under any claim", "after a newer leader's", mistakingPublish(theMark)},
	{"takes under any claim", "deposed leader can neither publish, take nor forget",
		mistakingTake(theMark)},
	{"admits the previous leader", "deposed leader can neither publish, take nor forget",
		mistaking(func(c, mark fence.Claim) fence.Claim {
			c.Token += min(1, max(mark.Token-c.Token, 0))
			return c
		})},
	{"compares tokens as floats", "deposed leader can neither publish, take nor forget",
		mistaking(func(c, mark fence.Claim) fence.Claim {
			if float64(c.Token) == float64(mark.Token) {
				c.Token = mark.Token
			}
			return c
		})},
	{"admits a claim above the mark", "to which the mark is not raised",
		mistaking(func(c, mark fence.Claim) fence.Claim {
			c.Token = min(c.Token, mark.Token)
			return c
		})},
	{"raises the mark by publishing", "to which the mark is not raised", func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			_ = f.Memory.Raise(ctx, c)
			return f.Memory.Publish(ctx, c, cp)
		}
	}},
	{"ignores the issuer", "of another issuer",
		mistaking(func(c, mark fence.Claim) fence.Claim {
			c.Issuer = mark.Issuer
			return c
		})},
	{"lets an older leader raise", "brings a deposed leader back", func(f *flawed) {
		f.raise = func(_ context.Context, c fence.Claim) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.marks[c.Resource] = c
			return nil
		}
	}},
	{"lets a leader raise once", "may raise again", func(f *flawed) {
		f.raise = func(ctx context.Context, c fence.Claim) error {
			if f.mark(c) == c {
				return refuse(fence.ErrStale, c, c, "stop")
			}
			return f.Memory.Raise(ctx, c)
		}
	}},
	{"has one mark for all resources", "does not disturb another", func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			for _, r := range []fence.Resource{orders, stock} {
				if mark := f.mark(fence.Claim{Resource: r}); mark.Token > c.Token {
					return refuse(fence.ErrStale, c, mark, "stop")
				}
			}
			return f.Memory.Publish(ctx, c, cp)
		}
	}},
	{"lets any resource have a task", "belongs to the resource", func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			if cp.Version == f.at(cp.Task)+1 {
				return f.force(c, cp)
			}
			return f.Memory.Publish(ctx, c, cp)
		}
	}},
	{"shows a task to any resource", "belongs to the resource", func(f *flawed) {
		f.take = func(
			ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
		) (checkpoint.Checkpoint, bool, error) {
			cp, same, err := f.Memory.TakeOver(ctx, c, task, have)
			if verdict(err) == checkpoint.ErrOtherResource {
				return cp, have == 1, nil
			}
			return cp, same, err
		}
	}},
	{"refuses without a reason", "deposed leader can neither publish, take nor forget",
		func(f *flawed) {
			f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
				if err := f.Memory.Publish(ctx, c, cp); err != nil {
					return verdict(err)
				}
				return nil
			}
		}},
}
