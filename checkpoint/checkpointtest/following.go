package checkpointtest

import (
	"context"
	"errors"
	"sync"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/internal/test/contract"
)

var followClauses = []contract.Clause[*stage]{
	{
		Name:  "Follow shows the checkpoint that is there, then newer ones of any process",
		Holds: followSeesNewer,
	},
	{Name: "Follow waits for a task's first checkpoint", Holds: followWaitsForFirst},
	{Name: "Follow shows one task, under any leader", Holds: followOverTakeover},
	{Name: "Follow goes on when the task is forgotten", Holds: followOverForget},
	{Name: "Many follow at once", Holds: manyFollow},
	{Name: "Follow ends with what its callback returns", Holds: followEndsWithCallback},
	{Name: "Follow ends with its context", Holds: followEndsWithContext},
}

// follower is a Follow that runs concurrently with the test.
type follower struct {
	*stage
	seen chan checkpoint.Checkpoint
	stop context.CancelFunc
	done chan error
}

func (k *stage) follow(j checkpoint.Journal, task checkpoint.Name) *follower {
	ctx, stop := context.WithCancel(k.ctx)
	f := &follower{k, make(chan checkpoint.Checkpoint), stop, make(chan error, 1)}
	var running sync.WaitGroup
	k.Cleanup(func() { stop(); running.Wait() })
	running.Go(func() {
		f.done <- j.Follow(ctx, task, func(cp checkpoint.Checkpoint) error {
			select {
			case f.seen <- cp:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	return f
}

// until fails the test unless the follower sees rising versions up to this one.
func (f *follower) until(want checkpoint.Checkpoint, after int64) {
	f.Helper()
	for {
		select {
		case cp := <-f.seen:
			if cp.Version <= after || cp.Version > want.Version || cp.Task != want.Task {
				f.Fatalf("shown version %d of %s after version %d, on the way to version %d of %s",
					cp.Version, cp.Task, after, want.Version, want.Task)
			}
			if after = cp.Version; after == want.Version {
				f.equal(cp, want)
				return
			}
		case err := <-f.done:
			f.Fatalf("follow ended with %v", err)
		case <-f.ctx.Done():
			f.Fatalf("version %d was not shown, after version %d", want.Version, after)
		}
	}
}

// end stops the follower and fails the test if it sees anything more.
func (f *follower) end() {
	f.Helper()
	f.stop()
	select {
	case err := <-f.done:
		if !errors.Is(err, context.Canceled) {
			f.Fatalf("follow ended with %v, want its context's cause", err)
		}
	case cp := <-f.seen:
		f.Fatalf("shown version %d of %s once more", cp.Version, cp.Task)
	case <-f.ctx.Done():
		f.Fatal("follow did not end with its context")
	}
}

func followSeesNewer(k *stage) {
	c := k.lead(orders)
	present := k.publish(c, version(1, c, nightly, "a"))
	f := k.follow(k.Second, nightly)
	f.until(present, 0)
	for n := range int64(3) {
		f.until(k.publish(c, version(n+2, c, nightly, "a")), n+1) // one at a time
	}
	var last checkpoint.Checkpoint
	for n := range int64(20) {
		last = k.publish(c, version(n+5, c, nightly, "a")) // faster than they are looked at
	}
	f.until(last, 4)
	f.end()
}

func followWaitsForFirst(k *stage) {
	f := k.follow(k.Journal, nightly)
	c := k.lead(orders)
	first := version(1, c, nightly, "a")
	if err := k.try(k.Second, c, first); err != nil {
		k.Fatal(err)
	}
	f.until(first, 0)
	f.end()
}

func followOverTakeover(k *stage) {
	f := k.follow(k.Second, nightly)
	for n := range int64(5) {
		c := k.lead(orders)
		k.publish(c, version(n+1, c, hourly, "other task"))
		f.until(k.publish(c, version(n+1, c, nightly, "a")), n)
	}
	f.end()
}

// A journal may show what is published after the task was forgotten, or leave it out until its
// version is above the last one that it has shown.
func followOverForget(k *stage) {
	f := k.follow(k.Second, nightly)
	last := k.begin(k.lead(orders), 3)
	f.until(last, 0)
	c := k.lead(orders)
	k.forget(k.Journal, c, nightly)
	late := k.follow(k.Second, nightly)
	k.publish(c, version(1, c, hourly, "other task"))
	last = k.begin(k.lead(orders), 4)
	f.eventually(last)
	late.until(last, 0)
	f.end()
	late.end()
}

// eventually fails the test unless the follower sees this version, after any of those before it.
func (f *follower) eventually(want checkpoint.Checkpoint) {
	f.Helper()
	for {
		select {
		case cp := <-f.seen:
			if cp.Version < 1 || cp.Version > want.Version || cp.Task != want.Task {
				f.Fatalf("shown version %d of %s on the way to version %d of %s", cp.Version, cp.Task,
					want.Version, want.Task)
			}
			if cp.Version == want.Version {
				f.equal(cp, want)
				return
			}
		case err := <-f.done:
			f.Fatalf("follow ended with %v", err)
		case <-f.ctx.Done():
			f.Fatalf("version %d was not shown", want.Version)
		}
	}
}

func manyFollow(k *stage) {
	c := k.lead(orders)
	last := map[checkpoint.Name]checkpoint.Checkpoint{}
	var all []*follower
	for i, task := range []checkpoint.Name{nightly, hourly, nightly, hourly, nightly} {
		all = append(all, k.follow([]checkpoint.Journal{k.Journal, k.Second}[i%2], task))
	}
	for n := range int64(3) {
		for _, task := range []checkpoint.Name{nightly, hourly} {
			last[task] = k.publish(c, version(n+1, c, task, "a"))
		}
	}
	for i, task := range []checkpoint.Name{nightly, hourly, nightly, hourly, nightly} {
		all[i].until(last[task], 0)
	}
	for _, f := range all {
		f.end()
	}
}

var errEnough = errors.New("enough")

func followEndsWithCallback(k *stage) {
	c := k.lead(orders)
	k.publish(c, version(1, c, nightly, "a"))
	for _, last := range []int64{1, 2} {
		done := make(chan error, 1)
		go func() {
			done <- k.Second.Follow(k.ctx, nightly, func(cp checkpoint.Checkpoint) error {
				if cp.Version == last {
					return errEnough
				}
				return nil
			})
		}()
		if last == 2 {
			k.publish(c, version(2, c, nightly, "a"))
		}
		k.endsWith(done, errEnough)
	}
}

func (k *stage) endsWith(done <-chan error, want error) {
	k.Helper()
	select {
	case err := <-done:
		if !errors.Is(err, want) {
			k.Fatalf("ended with %v, want %v", err, want)
		}
	case <-k.ctx.Done():
		k.Fatalf("did not end, with %v or otherwise", want)
	}
}

func followEndsWithContext(k *stage) {
	c := k.lead(orders)
	f := k.follow(k.Journal, nightly) // nothing is there
	f.end()
	k.publish(c, version(1, c, nightly, "a"))
	ended, stop := context.WithCancelCause(k.ctx)
	stop(errEnough)
	done := make(chan error, 1)
	go func() {
		done <- k.Journal.Follow(ended, nightly, func(checkpoint.Checkpoint) error { return nil })
	}()
	select {
	case err := <-done:
		if !errors.Is(err, errEnough) && !errors.Is(err, context.Canceled) {
			k.Fatalf("follow with an ended context returned %v", err)
		}
	case <-k.ctx.Done():
		k.Fatal("follow with an ended context did not return")
	}
}
