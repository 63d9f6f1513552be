package checkpointtest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/ringfence/ringfence/checkpoint"
)

var loadFlaws = []flaw{
	{"lists without order", "sorted by name", func(f *flawed) {
		f.load = func(ctx context.Context, only ...checkpoint.Name) ([]checkpoint.Checkpoint, error) {
			all, err := f.Memory.Load(ctx, only...)
			slices.Reverse(all)
			return all, err
		}
	}},
	{"sorts without regard to case", "sorted by name", func(f *flawed) {
		f.load = func(ctx context.Context, only ...checkpoint.Name) ([]checkpoint.Checkpoint, error) {
			all, err := f.Memory.Load(ctx, only...)
			slices.SortStableFunc(all, func(a, b checkpoint.Checkpoint) int {
				return strings.Compare(strings.ToLower(string(a.Task)), strings.ToLower(string(b.Task)))
			})
			return all, err
		}
	}},
	{"ignores the names", "reads what is named", func(f *flawed) {
		f.load = func(ctx context.Context, only ...checkpoint.Name) ([]checkpoint.Checkpoint, error) {
			return f.Memory.Load(ctx)
		}
	}},
	{"has an entry for what was never published", "reads what is named", func(f *flawed) {
		f.load = func(ctx context.Context, only ...checkpoint.Name) ([]checkpoint.Checkpoint, error) {
			all, err := f.Memory.Load(ctx, only...)
			for _, task := range only {
				if !slices.Contains(names(all), task) {
					all = append(all, checkpoint.Checkpoint{Task: task})
				}
			}
			return all, err
		}
	}},
	{"shows what it read first", "shows what landed last", func(f *flawed) {
		var once sync.Once
		var first []checkpoint.Checkpoint
		f.load = func(
			ctx context.Context, only ...checkpoint.Name,
		) (_ []checkpoint.Checkpoint, err error) {
			once.Do(func() { first, err = f.Memory.Load(ctx, only...) })
			return first, err
		}
	}},
}
