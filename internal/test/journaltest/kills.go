package journaltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/documents/documentstest"
)

// Kill kills a server for the nth time, from 0, and starts it again. more waits until the leader
// has published again.
type Kill func(n int, more func(what string))

// ThroughKills publishes while servers are killed: least times, and then until an answer was lost,
// but at most most times. It fails the test if a checkpoint is lost or doubled, or if the standby
// does not see the last one. open opens a coordinator, as another process would.
func ThroughKills(
	t *testing.T, open func(testing.TB) documents.Coordinator, least, most int, kill Kill,
) {
	t.Helper()
	p := newStage(t, documentstest.Fixture{Open: open})
	j, standby, c := p.journal(), p.journal(), p.lead(orders)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	seen := follow(t, ctx, &work, standby)
	var at, end, unknown atomic.Int64
	end.Store(1 << 30)
	ended := make(chan struct{})
	work.Go(func() {
		defer close(ended)
		if err := keepPublishing(ctx, j, c, &unknown, func(n int64) bool {
			at.Store(n)
			return n < end.Load()
		}); err != nil {
			t.Errorf("the leader ended with %v", err)
		}
	})
	more := func(what string) {
		t.Helper()
		before := at.Load()
		eventually(t, what, func() bool { return at.Load() > before+20 })
	}
	// A kill may fall between two publishes, or hit a server that serves nobody.
	for kills := 0; kills < least || unknown.Load() == 0 && kills < most; kills++ {
		more("the leader publishes again")
		kill(kills, more)
	}
	end.Store(at.Load() + 20)
	<-ended // at the latest with ctx
	if unknown.Load() == 0 {
		t.Error("no answer was lost, so nothing was shown")
	}
	for got := int64(0); got < at.Load(); {
		select {
		case got = <-seen:
		case <-ctx.Done():
			t.Fatalf("the follower stays at %d", got)
		}
	}
	got, err := j.Load(t.Context(), nightly)
	if err != nil || len(got) != 1 || got[0].Version != at.Load() ||
		string(got[0].State) != fmt.Sprint(at.Load()) {
		t.Errorf("stored is %+v, %v; the last that was published is %d", got, err, at.Load())
	}
}

// keepPublishing publishes versions, and reads back those with a lost answer, until each returns
// false. It counts the lost answers.
func keepPublishing(
	ctx context.Context, j checkpoint.Journal, c fence.Claim, unknown *atomic.Int64,
	each func(n int64) bool,
) error {
	next := version(1, c)
	late := int64(0) // the version that may land after it was read back
	for ctx.Err() == nil {
		err := j.Publish(ctx, c, next)
		if errors.Is(err, checkpoint.ErrUnknown) {
			unknown.Add(1)
			late = next.Version
		}
		switch {
		case errors.Is(err, checkpoint.ErrUnknown),
			errors.Is(err, checkpoint.ErrConflict) && next.Version == late:
			if next, err = readBack(ctx, j, c, next); err != nil {
				return err
			}
			continue
		case errors.Is(err, checkpoint.ErrTransient):
			continue
		case err != nil:
			return err
		}
		if !each(next.Version) {
			return nil
		}
		next = version(next.Version+1, c)
	}
	return context.Cause(ctx)
}

// readBack returns the checkpoint to publish after a lost answer.
func readBack(
	ctx context.Context, j checkpoint.Journal, c fence.Claim, lost checkpoint.Checkpoint,
) (checkpoint.Checkpoint, error) {
	for {
		got, _, err := j.TakeOver(ctx, c, lost.Task, -1)
		switch {
		case errors.Is(err, checkpoint.ErrTransient):
		case err != nil:
			return lost, err
		case got.Version == lost.Version && got.Nonce == lost.Nonce:
			return version(lost.Version+1, c), nil
		case got.Version == lost.Version-1:
			return lost, nil
		default:
			return lost, fmt.Errorf("version %d is stored, %d was published", got.Version, lost.Version)
		}
	}
}

// follow returns a channel with the last version that a follower has seen. It fails the test if the
// follower sees a version twice, or one with the state of another.
func follow(
	t *testing.T, ctx context.Context, work *sync.WaitGroup, standby checkpoint.Journal,
) <-chan int64 {
	seen := make(chan int64, 1)
	work.Go(func() {
		last := int64(0)
		err := standby.Follow(ctx, nightly, func(cp checkpoint.Checkpoint) error {
			if cp.Version <= last || string(cp.State) != fmt.Sprint(cp.Version) {
				t.Errorf("the follower saw version %d with state %s after %d", cp.Version, cp.State, last)
			}
			last = cp.Version
			select {
			case <-seen: // replaces a version that was not read
			default:
			}
			seen <- last
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("follow ended with %v", err)
		}
	})
	return seen
}
