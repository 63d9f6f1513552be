package etcd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/journaltest"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func TestKilledMembersLoseNothingAndDoubleNothing(t *testing.T) {
	e := serverstest.Etcd(t, servers.EtcdOptions{Members: 3})
	b := newBench(t, e.Addr())
	quick := Options{RequestTimeout: 4 * time.Second}
	j, standby, c := b.journal(quick), b.journal(quick), b.Lead(orders)
	journaltest.ThroughKills(t, j, standby, c, 3, 12, func(n int, more func(string)) {
		m := e.Members[n%3]
		if err := m.Kill(); err != nil {
			t.Fatal(err)
		}
		more("the leader publishes without a member")
		if err := m.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// A member without its cluster still has the old data.
func TestAMemberWithoutItsClusterConfirmsNobody(t *testing.T) {
	e := serverstest.Etcd(t, servers.EtcdOptions{Members: 3})
	b := newBench(t, e.Addr())
	c := b.Lead(orders)
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
	c := b.Lead(orders)
	publish(t, j, c, version(1, c))
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	seen := journaltest.Follow(t, ctx, &work, standby)
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
	c := b.Lead(orders)
	publish(t, j, c, version(1, c))
	t.Run("out of reach is transient: nothing was sent, so nothing has landed", func(t *testing.T) {
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
		journaltest.OutOfReach(t, j, c, 1)
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
	c := b.Lead(orders)
	for n := int64(1); n <= 3; n++ {
		publish(t, j, c, version(n, c))
	}
	before, err := b.admin.Get(t.Context(), j.key(nightly))
	if err != nil {
		t.Fatal(err)
	}
	b.Depose(orders)
	ran := false
	followed := make(chan struct{})
	runner := checkpoint.Runner[int]{
		Lead: fence.Lead{Elector: waits{b.Elector, followed}, Resource: orders, Holder: "standby"},
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
