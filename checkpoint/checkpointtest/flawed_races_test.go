package checkpointtest

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

var raceFlaws = []flaw{
	{"checks the mark some time before it publishes", "Once a new leader has taken", lateMark},
	{"admits every leader", "Of leaders that publish at once", mistaking(theMark)},
	{"checks the version some time before it publishes", "one version at once", lateVersion},
	{"publishes one task at a time, and refuses the others", "Many tasks at once", func(f *flawed) {
		var busy sync.Mutex
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			if !busy.TryLock() {
				return checkpoint.ErrConflict
			}
			defer busy.Unlock()
			time.Sleep(time.Millisecond)
			return f.Memory.Publish(ctx, c, cp)
		}
	}},
	{"ignores an ended context", "with an ended context", func(f *flawed) {
		f.publish = func(_ context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			return f.Memory.Publish(context.Background(), c, cp)
		}
	}},
	{"says that nothing has landed when the context ends", "with an ended context",
		late(checkpoint.ErrTransient)},
	{"says that nothing has landed when the context ends", "an interrupted publish",
		late(context.DeadlineExceeded)},
	{"returns while the write is still on its way", "an interrupted publish", func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			if !strings.HasPrefix(cp.Nonce, "cut") {
				time.Sleep(time.Millisecond)
				return f.Memory.Publish(ctx, c, cp)
			}
			go func() { _ = f.Memory.Publish(context.Background(), c, cp) }()
			return context.DeadlineExceeded
		}
	}},
}

// lateMark checks the mark and publishes in two separate steps.
func lateMark(f *flawed) {
	f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
		if c != f.mark(c) {
			return f.Memory.Publish(ctx, c, cp)
		}
		if strings.HasPrefix(cp.Nonce, "persistent") {
			time.Sleep(5 * time.Millisecond)
		}
		return f.Memory.Publish(ctx, f.mark(c), cp)
	}
}

// lateVersion checks the version and publishes in two separate steps.
func lateVersion(f *flawed) {
	f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
		if f.at(cp.Task) != cp.Version-1 {
			return f.Memory.Publish(ctx, c, cp)
		}
		time.Sleep(time.Millisecond)
		return f.force(c, cp)
	}
}

// late publishes even if the context has ended, and then returns answer.
func late(answer error) func(f *flawed) {
	return func(f *flawed) {
		f.publish = func(ctx context.Context, c fence.Claim, cp checkpoint.Checkpoint) error {
			err := f.Memory.Publish(context.Background(), c, cp)
			if strings.HasPrefix(cp.Nonce, "cut") {
				time.Sleep(time.Millisecond)
			}
			if ctx.Err() != nil {
				return answer
			}
			return err
		}
	}
}
