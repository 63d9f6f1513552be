package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// run publishes versions, and reads back those with a lost answer, until each returns false. It
// counts the lost answers.
func run(
	ctx context.Context, j *Journal, c fence.Claim, unknown *atomic.Int64, each func(n int64) bool,
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
	ctx context.Context, j *Journal, c fence.Claim, lost checkpoint.Checkpoint,
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

// follow returns a channel with the last version that a follower has seen.
func follow(
	t *testing.T, ctx context.Context, work *sync.WaitGroup, standby *Journal,
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

func TestKilledMembersLoseNothingAndDoubleNothing(t *testing.T) {
	e := serverstest.Etcd(t, servers.EtcdOptions{Members: 3})
	b := newBench(t, e.Addr())
	quick := Options{RequestTimeout: 4 * time.Second}
	j, standby := b.journal(quick), b.journal(quick)
	c := b.lead(orders)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
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
	// A kill may fall between two publishes, or hit a member that serves nobody.
	for kills := 0; kills < 3 || unknown.Load() == 0 && kills < 12; kills++ {
		before := at.Load()
		eventually(t, "the leader publishes again", func() bool { return at.Load() > before+20 })
		m := e.Members[kills%3]
		if err := m.Kill(); err != nil {
			t.Fatal(err)
		}
		without := at.Load()
		eventually(t, "the leader publishes without a member", func() bool {
			return at.Load() > without+20
		})
		if err := m.Start(t.Context()); err != nil {
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
}

// A member without its cluster still has the old data.
func TestAMemberWithoutItsClusterConfirmsNobody(t *testing.T) {
	e := serverstest.Etcd(t, servers.EtcdOptions{Members: 3})
	b := newBench(t, e.Addr())
	c := b.lead(orders)
	publish(t, b.journal(Options{}), c, version(1, c))
	alone := e.Members[0]
	only := &bench{t: t, url: "etcd://" + alone.Addr() + b.url[len("etcd://"+e.Addr()):]}
	j := only.journal(Options{RequestTimeout: 2 * time.Second})
	if _, _, err := j.Take(t.Context(), c, nightly, 1); err != nil { // j knows that it leads
		t.Fatal(err)
	}
	for _, m := range e.Members[1:] {
		if err := m.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	control, err := clientv3.New(clientv3.Config{
		Endpoints: []string{alone.Addr()}, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	stale, err := control.Get(t.Context(), j.key(nightly), clientv3.WithSerializable())
	if err != nil || len(stale.Kvs) != 1 {
		t.Errorf("the member does not answer: %v, %v; this test proves nothing", stale, err)
	}
	_, _, take := j.Take(t.Context(), c, nightly, 1)
	_, load := j.Load(t.Context())
	for what, err := range map[string]error{
		"raise": j.Raise(t.Context(), c), "take": take, "load": load,
	} {
		if !errors.Is(err, checkpoint.ErrTransient) {
			t.Errorf("%s returned %v", what, err)
		}
	}
	if err := e.Resume(); err != nil {
		t.Fatal(err)
	}
}

// What comes between a follower's read and its watch is compacted, so the watch fails.
func TestACompactionLosesNoFollowerAndNoVersion(t *testing.T) {
	e := serverstest.Etcd(t, servers.EtcdOptions{})
	b := newBench(t, e.Addr())
	j := b.journal(Options{})
	read, watch := make(chan struct{}), make(chan struct{})
	var once sync.Once
	standby := b.journalWith(Options{RequestTimeout: time.Minute}, func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, o ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, o...)
		if method == "/etcdserverpb.KV/Range" {
			once.Do(func() {
				close(read)
				<-watch
			})
		}
		return err
	})
	c := b.lead(orders)
	publish(t, j, c, version(1, c))
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	seen := follow(t, ctx, &work, standby)
	<-read
	for n := int64(2); n <= 5; n++ {
		publish(t, j, c, version(n, c))
	}
	now, err := b.admin.Put(t.Context(), "/other", "x")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.admin.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
	if err != nil {
		t.Fatal(err)
	}
	close(watch)
	eventually(t, "the follower sees the last version", func() bool {
		select {
		case n := <-seen:
			return n == 5
		default:
			return false
		}
	})
	if _, same, err := j.Take(t.Context(), c, nightly, 5); err != nil || !same {
		t.Errorf("take: same is %v, %v", same, err)
	}
	publish(t, j, c, version(6, c))
}

func TestAMemberThatStopsAndIsWiped(t *testing.T) {
	e := serverstest.Etcd(t, servers.EtcdOptions{})
	b := newBench(t, e.Addr())
	j := b.journal(Options{RequestTimeout: 2 * time.Second})
	patient := b.journal(Options{RequestTimeout: 20 * time.Second})
	c := b.lead(orders)
	publish(t, j, c, version(1, c))
	t.Run("out of reach is transient: nothing was sent, so nothing has landed", func(t *testing.T) {
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
		_ = j.Publish(t.Context(), c, version(2, c)) // learns that the connection is gone
		calls := map[string]func() error{
			"raise":   func() error { return j.Raise(t.Context(), c) },
			"take":    func() error { _, _, err := j.Take(t.Context(), c, nightly, 1); return err },
			"publish": func() error { return j.Publish(t.Context(), c, version(2, c)) },
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
	})
	t.Run("wiped it is another issuer: no newer leader to the one of before, and no way in",
		func(t *testing.T) {
			if err := e.Wipe(t.Context()); err != nil {
				t.Fatal(err)
			}
			refused(t, patient, c, fence.ErrOtherIssuer, checkpoint.Checkpoint{})
		})
}

// The candidate has another key in a cluster that was wiped, but the runner must notice as well
// that the checkpoints went back.
func TestAJournalThatWentBackRunsNothing(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	j := b.journal(Options{})
	c := b.lead(orders)
	for n := int64(1); n <= 3; n++ {
		publish(t, j, c, version(n, c))
	}
	before, err := b.admin.Get(t.Context(), j.key(nightly))
	if err != nil {
		t.Fatal(err)
	}
	b.depose(orders)
	ran := false
	followed := make(chan struct{})
	runner := checkpoint.Runner[int]{
		Lead: fence.Lead{Elector: waits{b.elector, followed}, Resource: orders, Holder: "standby"},
		Journal: seen{j, func() { // the standby has seen version 3; then an old snapshot is restored
			_, err := b.admin.Delete(t.Context(), j.key(nightly))
			if err != nil {
				t.Error(err)
			}
			if _, err = b.admin.Put(t.Context(), j.key(nightly), string(before.Kvs[0].Value)); err != nil {
				t.Error(err)
			}
			close(followed)
		}},
		Task: checkpoint.Task[int]{Name: nightly, Steps: []checkpoint.Step[int]{{
			Name: "only", Run: func(context.Context, int, checkpoint.Key) (int, error) {
				ran = true
				return 0, errors.New("it ran")
			},
		}}},
	}
	if _, err := runner.Run(t.Context()); !errors.Is(err, checkpoint.ErrConflict) || ran {
		t.Errorf("run: %v, a step ran: %v", err, ran)
	}
}

// waits is an elector whose campaigns begin after an event.
type waits struct {
	fence.Elector
	event <-chan struct{}
}

func (w waits) Campaign(
	ctx context.Context, r fence.Resource, holder string,
) (*fence.Term, error) {
	select {
	case <-w.event:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return w.Elector.Campaign(ctx, r, holder)
}

// seen is a journal that calls then after a follower has seen its first checkpoint.
type seen struct {
	*Journal
	then func()
}

func (s seen) Follow(
	ctx context.Context, task checkpoint.Name, each func(checkpoint.Checkpoint) error,
) error {
	var once sync.Once
	return s.Journal.Follow(ctx, task, func(cp checkpoint.Checkpoint) error {
		err := each(cp)
		once.Do(s.then)
		return err
	})
}
