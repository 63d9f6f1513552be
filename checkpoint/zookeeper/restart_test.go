package zookeeper_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/zookeeper"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// run publishes versions, and reads back those with a lost answer, until each returns false. It
// counts the lost answers.
func run(
	ctx context.Context, j *zookeeper.Journal, c fence.Claim, unknown *atomic.Int64,
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
		if errors.Is(err, checkpoint.ErrUnknown) || errors.Is(err, checkpoint.ErrConflict) &&
			next.Version == late {
			next, err = readBack(ctx, j, c, next)
			if err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, checkpoint.ErrTransient) {
			continue
		}
		if err != nil {
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
	ctx context.Context, j *zookeeper.Journal, c fence.Claim, lost checkpoint.Checkpoint,
) (checkpoint.Checkpoint, error) {
	for {
		got, _, err := j.Take(ctx, c, lost.Task, -1)
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

func TestAServerThatStopsAndStarts(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	b := newBench(t, z.Addr())
	quick := zookeeper.Options{SessionTimeout: 2 * time.Second}
	j, standby := b.journal(quick), b.journal(quick)
	// The timeout is as long as a wiped server needs until it serves well.
	patient := b.journal(zookeeper.Options{})
	c := b.lead(orders)
	var last int64
	t.Run("killed during publishes it loses nothing and doubles nothing, and strands no follower",
		func(t *testing.T) {
			last = killDuringPublishes(t, z, j, standby, c)
		})
	t.Run("out of reach is transient: nothing was sent, so nothing has landed", func(t *testing.T) {
		outOfReach(t, z, j, c, last)
	})
	t.Run("wiped it is another issuer: no newer leader to the one of before, and no way in",
		func(t *testing.T) {
			if err := z.Wipe(t.Context()); err != nil {
				t.Fatal(err)
			}
			refused(t, patient, c, fence.ErrOtherIssuer, checkpoint.Checkpoint{})
		})
}

// killDuringPublishes returns the last version.
func killDuringPublishes(
	t *testing.T, z *servers.ZooKeeper, j, standby *zookeeper.Journal, c fence.Claim,
) int64 {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
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
		if err := run(ctx, j, c, &unknown, func(n int64) bool {
			at.Store(n)
			return n < end.Load()
		}); err != nil {
			t.Errorf("the leader ended with %v", err)
		}
	})
	// A kill may fall between two publishes.
	for kills := 0; kills < 2 || unknown.Load() == 0 && kills < 10; kills++ {
		before := at.Load()
		eventually(t, "the leader publishes again", func() bool { return at.Load() > before+20 })
		if err := errors.Join(z.Kill(), z.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
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
	return at.Load()
}

// follow returns a channel with the last version that a follower has seen.
func follow(
	t *testing.T, ctx context.Context, work *sync.WaitGroup, standby *zookeeper.Journal,
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

func outOfReach(
	t *testing.T, z *servers.ZooKeeper, j *zookeeper.Journal, c fence.Claim, last int64,
) {
	if err := z.Stop(); err != nil {
		t.Fatal(err)
	}
	_ = j.Publish(t.Context(), c, version(last+1, c)) // learns that the connection is gone
	calls := map[string]func() error{
		"raise":   func() error { return j.Raise(t.Context(), c) },
		"take":    func() error { _, _, err := j.Take(t.Context(), c, nightly, last); return err },
		"publish": func() error { return j.Publish(t.Context(), c, version(last+1, c)) },
		"load":    func() error { _, err := j.Load(t.Context()); return err },
	}
	var all sync.WaitGroup
	for name, call := range calls {
		all.Go(func() {
			if err := call(); !errors.Is(err, checkpoint.ErrTransient) ||
				errors.Is(err, checkpoint.ErrUnknown) {
				t.Errorf("%s: got %v", name, err)
			}
		})
	}
	all.Wait()
}
