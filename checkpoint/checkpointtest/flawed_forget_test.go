package checkpointtest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

var forgetFlaws = []flaw{
	{"forgets nothing", "A forgotten task has version 0", forgetting(
		func(*flawed, context.Context, fence.Claim, checkpoint.Name) error { return nil })},
	{"leaves a forgotten task in Load", "A forgotten task has version 0", ghosts},
	{"forgets all tasks", "A forgotten task has version 0", forgetting(func(
		f *flawed, ctx context.Context, c fence.Claim, task checkpoint.Name,
	) error {
		f.unlist(hourly)
		return f.Memory.Forget(ctx, c, task)
	})},
	{"calls the copy of a forgotten task current", "A forgotten task has version 0",
		func(f *flawed) {
			f.take = func(
				ctx context.Context, c fence.Claim, task checkpoint.Name, have int64,
			) (checkpoint.Checkpoint, bool, error) {
				cp, same, err := f.Memory.TakeOver(ctx, c, task, have)
				return cp, same || err == nil && cp.Version == 0 && have == 3, err
			}
		}},
	{"forgets only what is there", "or one that was never published", forgetting(func(
		f *flawed, ctx context.Context, c fence.Claim, task checkpoint.Name,
	) error {
		if f.at(task) == 0 {
			return checkpoint.ErrNotFound
		}
		return f.Memory.Forget(ctx, c, task)
	})},
	{"forgets under any claim", "deposed leader can neither", forgetting(func(
		f *flawed, ctx context.Context, c fence.Claim, task checkpoint.Name,
	) error {
		return f.Memory.Forget(ctx, f.mark(c), task)
	})},
	{"forgets under any claim", "to which the mark is not raised", forgetting(func(
		f *flawed, ctx context.Context, c fence.Claim, task checkpoint.Name,
	) error {
		f.unlist(task)
		return f.Memory.Forget(ctx, c, task)
	})},
	{"looks at the claim only if there is something to forget", "deposed leader can neither",
		forgetting(func(
			f *flawed, ctx context.Context, c fence.Claim, task checkpoint.Name,
		) error {
			if f.at(task) == 0 {
				return nil
			}
			return f.Memory.Forget(ctx, c, task)
		})},
	{"forgets the tasks of any resource", "another resource is not forgotten", forgetting(func(
		f *flawed, ctx context.Context, c fence.Claim, task checkpoint.Name,
	) error {
		err := f.Memory.Forget(ctx, c, task)
		if errors.Is(err, checkpoint.ErrOtherResource) {
			f.unlist(task)
			return nil
		}
		return err
	})},
	{"does not say that a task is another resource's", "another resource is not forgotten",
		forgetting(func(
			f *flawed, ctx context.Context, c fence.Claim, task checkpoint.Name,
		) error {
			err := f.Memory.Forget(ctx, c, task)
			if errors.Is(err, checkpoint.ErrOtherResource) {
				return nil
			}
			return err
		})},
	{"continues a forgotten task", "Nobody continues", func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			if f.at(cp.Task) == 0 {
				return f.force(c, cp)
			}
			return f.Memory.Publish(ctx, c, cp)
		}
	}},
	{"lets anybody begin a task", "Nobody continues", func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			if f.at(cp.Task) == 0 && cp.Version == 1 {
				c = f.mark(c)
			}
			return f.Memory.Publish(ctx, c, cp)
		}
	}},
	{"remembers whose a forgotten task was", "is free for a later leader", remembersOwners},
	{"checks version and claim some time before it publishes", "no older one publishes it",
		func(f *flawed) {
			f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
				if c != f.mark(c) || f.at(cp.Task) != cp.Version-1 {
					return f.Memory.Publish(ctx, c, cp)
				}
				time.Sleep(time.Millisecond)
				return f.force(f.mark(c), cp)
			}
		}},
	{"checks the version some time before it publishes", "A publish at the same time", lateVersion},
	{"forgets the version that it has seen, and no newer one", "A publish at the same time",
		func(f *flawed) {
			f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
				time.Sleep(time.Millisecond)
				return f.Memory.Publish(ctx, c, cp)
			}
			f.forget = func(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
				before := f.at(task)
				time.Sleep(3 * time.Millisecond)
				if f.at(task) != before {
					return nil
				}
				return f.Memory.Forget(ctx, c, task)
			}
		}},
	{"ends a follower when its task is forgotten", "Follow goes on", func(f *flawed) {
		f.follow = func(
			ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
		) error {
			ctx, end := context.WithCancel(ctx)
			defer end()
			f.forget = func(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
				defer end()
				return f.Memory.Forget(ctx, c, task)
			}
			return f.Memory.Follow(ctx, task, each)
		}
	}},
	{"shows a deletion as version 0", "Follow goes on", func(f *flawed) {
		forgotten := make(chan struct{})
		f.forget = func(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
			defer close(forgotten)
			return f.Memory.Forget(ctx, c, task)
		}
		f.follow = func(
			ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
		) error {
			told := false
			return f.Memory.Follow(ctx, task, func(cp checkpoint.Checkpoint) error {
				select {
				case <-forgotten:
					if !told {
						told = true
						if err := each(checkpoint.Checkpoint{Task: task}); err != nil {
							return err
						}
					}
				default:
				}
				return each(cp)
			})
		}
	}},
	{"forgets in spite of an ended context", "with an ended context", forgetting(func(
		f *flawed, _ context.Context, c fence.Claim, task checkpoint.Name,
	) error {
		return f.Memory.Forget(context.Background(), c, task)
	})},
	{"says that nothing was forgotten when the context ends", "an interrupted forget",
		forgetting(func(f *flawed, ctx context.Context, c fence.Claim, task checkpoint.Name) error {
			err := f.Memory.Forget(context.Background(), c, task)
			if strings.HasPrefix(string(task), "cut") {
				time.Sleep(time.Millisecond)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		})},
}

// forgetting has a Forget of its own.
func forgetting(
	forget func(f *flawed, ctx context.Context, c fence.Claim, task checkpoint.Name) error,
) func(f *flawed) {
	return func(f *flawed) {
		f.forget = func(ctx context.Context, c fence.Claim, task checkpoint.Name) error {
			return forget(f, ctx, c, task)
		}
	}
}

// ghosts lists what was forgotten as if it were there.
func ghosts(f *flawed) {
	var last []checkpoint.Checkpoint
	f.forget = func(ctx context.Context, c fence.Claim, task checkpoint.Name) (err error) {
		last, _ = f.Memory.Load(ctx)
		return f.Memory.Forget(ctx, c, task)
	}
	f.load = func(ctx context.Context, only ...checkpoint.Name) ([]checkpoint.Checkpoint, error) {
		if len(only) == 0 && last != nil {
			return last, nil
		}
		return f.Memory.Load(ctx, only...)
	}
}

// remembersOwners has a cache of the resources of tasks, and Forget leaves it as it is.
func remembersOwners(f *flawed) {
	var mu sync.Mutex
	owners := map[checkpoint.Name]fence.Resource{}
	f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
		mu.Lock()
		owner, known := owners[cp.Task]
		owners[cp.Task] = c.Resource
		if known {
			owners[cp.Task] = owner
		}
		mu.Unlock()
		if known && owner != c.Resource {
			return checkpoint.ErrOtherResource
		}
		return f.Memory.Publish(ctx, c, cp)
	}
}
