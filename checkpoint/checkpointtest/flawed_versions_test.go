package checkpointtest

import (
	"context"
	"strings"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

var versionFlaws = []flaw{
	{"publishes whatever is stored", "lands only on the version before it", func(f *flawed) {
		f.publish = func(_ context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			return f.force(c, cp)
		}
	}},
	{"publishes the stored version again", "repeated publish is a conflict", func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			if cp.Version == f.at(cp.Task) {
				return f.force(c, cp)
			}
			return f.Memory.Publish(ctx, c, cp)
		}
	}},
	{"skips versions", "lands only on the version before it", func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			if cp.Version > f.at(cp.Task) {
				return f.force(c, cp)
			}
			return f.Memory.Publish(ctx, c, cp)
		}
	}},
	{"publishes version 0", "lands only on the version before it", func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			if cp.Version == 0 {
				return nil
			}
			return f.Memory.Publish(ctx, c, cp)
		}
	}},
	{"calls an older copy current when there is a newer one", "copy is current", func(f *flawed) {
		f.take = func(
			ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
		) (checkpoint.Checkpoint, bool, error) {
			cp, same, err := f.Memory.TakeOver(ctx, c, task, have)
			return cp, same || err == nil && have > 0 && have < cp.Version, err
		}
	}},
	{"calls a copy current that is ahead of the journal", "copy is current", func(f *flawed) {
		f.take = func(
			ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
		) (checkpoint.Checkpoint, bool, error) {
			cp, same, err := f.Memory.TakeOver(ctx, c, task, have)
			return cp, same || err == nil && have > cp.Version, err
		}
	}},
	{"sends every checkpoint", "copy is current", func(f *flawed) {
		f.take = func(
			ctx context.Context, c fence.Claim, task checkpoint.Name, _ int64,
		) (checkpoint.Checkpoint, bool, error) {
			return f.Memory.TakeOver(ctx, c, task, -1)
		}
	}},
	{"says version 1 when nothing is stored", "never published has version 0", func(f *flawed) {
		f.take = func(
			ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
		) (checkpoint.Checkpoint, bool, error) {
			cp, same, err := f.Memory.TakeOver(ctx, c, task, have)
			cp.Version = max(cp.Version, 1)
			return cp, same, err
		}
	}},
	{"ignores the case of names", "Tasks have versions of their own", func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			cp.Task = checkpoint.Name(strings.ToLower(string(cp.Task)))
			return f.Memory.Publish(ctx, c, cp)
		}
	}},
}
