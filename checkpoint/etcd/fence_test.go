package etcd

import (
	"context"
	"errors"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/cluster"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// The request is delayed; no process pauses.
func TestAWriteOnItsWayWhenItsLeaderIsDeposedDoesNotLand(t *testing.T) {
	overtaken(t, func(j *Journal, old fence.Claim) error { return j.Publish(t.Context(), old, version(2, old)) })
}

func TestAForgetOnItsWayWhenItsLeaderIsDeposedDeletesNothing(t *testing.T) {
	overtaken(t, func(j *Journal, old fence.Claim) error { return j.Forget(t.Context(), old, nightly) })
}

// overtaken deposes a leader whose change of version 1 is on its way: it changes nothing.
func overtaken(t *testing.T, change func(*Journal, fence.Claim) error) {
	t.Helper()
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	f := &faults{}
	slow, quick := b.journalWith(Options{}, f.meddle), b.journal(Options{})
	old := b.Lead(orders)
	first := version(1, old)
	publish(t, slow, old, first)

	h := &held{make(chan struct{}), make(chan struct{})}
	f.hold.Store(h)
	late := make(chan error, 1)
	go func() { late <- change(slow, old) }()
	<-h.sent
	fresh := b.Lead(orders)
	got, same, err := quick.Take(t.Context(), fresh, nightly, 1)
	if err != nil || !same {
		t.Fatalf("took %+v, same is %v, %v", got, same, err)
	}
	close(h.arrive) // its version, or its key, would still fit
	if err := <-late; !errors.Is(err, fence.ErrStale) {
		t.Errorf("the late change returned %v", err)
	}
	stored(t, quick, first)
	publish(t, quick, fresh, version(2, fresh))
}

// The leader is deposed after it was looked up and before the read.
func TestTakeAnswersOnlyIfTheClaimLedDuringTheRead(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	j, quick := b.journal(Options{}), b.journal(Options{})
	old := b.Lead(orders)
	publish(t, j, old, version(1, old)) // j knows that it leads
	for n, have := range []int64{0, 2} {
		fresh := b.Lead(orders)
		publish(t, quick, fresh, version(int64(n)+2, fresh))
		if cp, same, err := j.Take(t.Context(), old, nightly, have); !errors.Is(err, fence.ErrStale) {
			t.Errorf("take, having version %d: %+v, same is %v, %v", have, cp, same, err)
		}
		if _, _, err := j.Take(t.Context(), fresh, nightly, 0); err != nil {
			t.Error(err)
		}
		old = fresh
	}
}

// The new identity comes between the lookup of the claim and its next write.
func TestAClaimFromBeforeTheIssuerWasRenewedIsRefused(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	j := b.journal(Options{})
	c := b.Lead(orders)
	first := version(1, c)
	publish(t, j, c, first)
	if now, err := b.Elector.RenewIssuer(t.Context()); err != nil || now == c.Issuer {
		t.Fatalf("issuer %q became %q, %v", c.Issuer, now, err)
	}
	for _, call := range []func() error{
		func() error { return j.Publish(t.Context(), c, version(2, c)) },
		func() error { return j.Forget(t.Context(), c, nightly) },
		func() error { _, _, err := j.Take(t.Context(), c, nightly, 1); return err },
	} {
		if err := call(); !errors.Is(err, fence.ErrOtherIssuer) {
			t.Errorf("a claim from before: %v", err)
		}
	}
	refused(t, j, c, fence.ErrOtherIssuer, first)
}

// A cluster restored from a snapshot may have the candidate and the identity, and another id.
func TestAPublishThatAnotherClusterAnswersIsUnknown(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	var elsewhere bool
	j := b.journalWith(Options{}, func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, o ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, o...)
		if txn, ok := reply.(*pb.TxnResponse); ok && elsewhere && err == nil {
			txn.Header.ClusterId++
		}
		return err
	})
	c := b.Lead(orders)
	publish(t, j, c, version(1, c))
	elsewhere = true
	if err := j.Publish(t.Context(), c, version(2, c)); !errors.Is(err, checkpoint.ErrUnknown) {
		t.Errorf("publish: %v", err)
	}
	if _, _, err := j.Take(t.Context(), c, nightly, 1); !errors.Is(err, fence.ErrOtherIssuer) {
		t.Errorf("take: %v", err)
	}
}

// Two keys of one transaction have one create revision. Both would lead.
func TestNeitherOfTwoCandidatesWithOneTokenReadsOrWrites(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	j := b.journal(Options{})
	c := b.Lead(orders)
	b.Depose(orders)
	dir := j.client.Election(orders)
	made, err := b.admin.Txn(t.Context()).
		Then(clientv3.OpPut(dir+"twin1", "{}"), clientv3.OpPut(dir+"twin2", "{}")).Commit()
	if err != nil {
		t.Fatal(err)
	}
	c.Token = fence.Token(made.Header.Revision)
	_, _, take := j.Take(t.Context(), c, nightly, 0)
	for call, err := range map[string]error{
		"Take": take, "Raise": j.Raise(t.Context(), c),
		"Publish": j.Publish(t.Context(), c, version(1, c)),
	} {
		if !errors.Is(err, cluster.ErrShared) {
			t.Errorf("%s returned %v", call, err)
		}
	}
	stored(t, j, checkpoint.Checkpoint{})
}

// An operator deletes a task, and another resource's leader begins it again. A journal that has
// known it under the first resource must not write over it.
func TestATaskThatWasBegunAgainUnderAnotherResourceIsNotOverwritten(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	j, other := b.journal(Options{}), b.journal(Options{})
	c, stock := b.Lead(orders), b.Lead("stock")
	publish(t, j, c, version(1, c))
	if _, err := b.admin.Delete(t.Context(), j.key(nightly)); err != nil {
		t.Fatal(err)
	}
	again := version(1, stock)
	publish(t, other, stock, again)
	err := j.Publish(t.Context(), c, version(2, c))
	if !errors.Is(err, checkpoint.ErrOtherResource) {
		t.Errorf("publish: %v", err)
	}
	stored(t, j, again)
	if _, _, err := j.Take(t.Context(), c, nightly, 1); !errors.Is(err, checkpoint.ErrOtherResource) {
		t.Errorf("take: %v", err)
	}
}

func TestALostAnswerIsUnknownAndReadBack(t *testing.T) {
	b := newBench(t, serverstest.SharedEtcd(t).Addr())
	f := &faults{}
	j := b.journalWith(Options{}, f.meddle)
	c := b.Lead(orders)
	for n := int64(1); n < 6; n++ {
		cp := version(n, c)
		f.loseRequest.Store(true)
		if err := j.Publish(t.Context(), c, cp); !errors.Is(err, checkpoint.ErrUnknown) {
			t.Errorf("version %d, whose request was lost: %v", n, err)
		}
		f.loseReply.Store(true)
		if err := j.Publish(t.Context(), c, cp); !errors.Is(err, checkpoint.ErrUnknown) {
			t.Errorf("version %d, whose reply was lost: %v", n, err)
		}
		got, _, err := j.Take(t.Context(), c, nightly, n-1)
		if err != nil || got.Version != n || got.Nonce != cp.Nonce {
			t.Errorf("take: %+v, %v", got, err)
		}
		if err := j.Publish(t.Context(), c, cp); !errors.Is(err, checkpoint.ErrConflict) {
			t.Errorf("version %d once more: %v", n, err)
		}
	}
}
