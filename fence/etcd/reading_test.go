package etcd

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/etcd/etcdtest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/journaltest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// The new identity comes between the lookup of the claim and its next call.
func TestAClaimFromBeforeTheIssuerWasRenewedReadsAndChangesNothing(t *testing.T) {
	t.Parallel()
	c := openWith(t, "etcd://"+serverstest.SharedEtcd(t).Addr()+freshPrefix(), 20*time.Second, nil)
	u := electiontest.Under(c.Documents(), electiontest.Win(t, c, "orders", "a").Claim())
	first, err := u.Put(t.Context(), 0, "x")
	must.Succeed(t, err)
	if now, err := c.RenewIssuer(t.Context()); err != nil || now == u.Claim.Issuer {
		t.Fatalf("issuer %q became %q, %v", u.Claim.Issuer, now, err)
	}
	if _, err := u.Get(t.Context()); !errors.Is(err, fence.ErrOtherIssuer) {
		t.Errorf("get: %v", err)
	}
	if _, err := u.Put(t.Context(), first, "y"); !errors.Is(err, fence.ErrOtherIssuer) {
		t.Errorf("change: %v", err)
	}
}

// A cluster restored from a snapshot may have the candidate and the identity, and another id.
func TestAnAnswerOfAnotherClusterProvesNothing(t *testing.T) {
	t.Parallel()
	var elsewhere bool
	meddle := func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		o ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, o...)
		if txn, ok := reply.(*pb.TxnResponse); ok && elsewhere && err == nil {
			txn.Header.ClusterId++
		}
		return err
	}
	url := "etcd://" + serverstest.SharedEtcd(t).Addr() + freshPrefix()
	claim := electiontest.Win(t, openWith(t, url, 20*time.Second, nil), "orders", "a").Claim()
	u := electiontest.Under(openWith(t, url, 20*time.Second, func(c *clientv3.Config) {
		c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(meddle))
	}).Documents(), claim)
	first, err := u.Put(t.Context(), 0, "x")
	must.Succeed(t, err)
	elsewhere = true
	if _, err := u.Put(t.Context(), first, "y"); !errors.Is(err, documents.ErrUnknown) {
		t.Errorf("change: %v", err)
	}
	if _, err := u.Get(t.Context()); !errors.Is(err, fence.ErrOtherIssuer) {
		t.Errorf("get: %v", err)
	}
}

// Two keys of one transaction have one create revision. Both would lead.
func TestNeitherOfTwoCandidatesWithOneTokenReadsOrChanges(t *testing.T) {
	t.Parallel()
	server := serverstest.SharedEtcd(t).Addr()
	prefix := freshPrefix()
	c := openWith(t, "etcd://"+server+prefix, 20*time.Second, nil)
	term := electiontest.Win(t, c, "orders", "a")
	must.Succeed(t, term.Resign(t.Context()))
	dir := layout{prefix}.election("orders")
	made, err := etcdtest.Connect(t, server).Txn(t.Context()).
		Then(clientv3.OpPut(dir+"twin1", "{}"), clientv3.OpPut(dir+"twin2", "{}")).Commit()
	must.Succeed(t, err)
	u := electiontest.Under(c.Documents(), term.Claim())
	u.Claim.Token, u.Claim.Candidate = fence.Token(made.Header.Revision), ""
	if _, err := u.Get(t.Context()); !errors.Is(err, errShared) {
		t.Errorf("get: %v", err)
	}
	if _, err := u.Put(t.Context(), 0, "x"); !errors.Is(err, errShared) {
		t.Errorf("change: %v", err)
	}
}

// A member without its cluster still has the old data.
func TestAMemberWithoutItsClusterConfirmsNobody(t *testing.T) {
	t.Parallel()
	e := serverstest.Etcd(t, servers.EtcdOptions{Members: 3})
	prefix := freshPrefix()
	c := openWith(t, "etcd://"+e.Addr()+prefix, 20*time.Second, nil)
	claim := electiontest.Win(t, c, "orders", "a").Claim()
	_, err := electiontest.Under(c.Documents(), claim).Put(t.Context(), 0, "x")
	must.Succeed(t, err)
	alone := e.Members[0]
	u := electiontest.Under(openWith(t, "etcd://"+alone.Addr()+prefix, 4*time.Second, nil).Documents(),
		claim)
	if _, err := u.Get(t.Context()); err != nil { // it knows that the claim leads
		t.Fatal(err)
	}
	for _, m := range e.Members[1:] {
		must.Succeed(t, m.Pause())
	}
	control, err := clientv3.New(clientv3.Config{
		Endpoints: []string{alone.Addr()}, Logger: zap.NewNop(),
	})
	must.Succeed(t, err)
	defer control.Close()
	old, err := control.Get(t.Context(), layout{prefix}.key("f/a"), clientv3.WithSerializable())
	if err != nil || len(old.Kvs) != 1 {
		t.Errorf("the member does not answer: %v, %v; this test proves nothing", old, err)
	}
	if _, err := u.Get(t.Context()); !errors.Is(err, documents.ErrUnreachable) {
		t.Errorf("get: %v", err)
	}
	must.Succeed(t, e.Resume())
}

// What comes between a read and the watch behind it is compacted, so the watch fails.
func TestACompactionHidesNoChangeFromAWatch(t *testing.T) {
	t.Parallel()
	e := serverstest.Etcd(t, servers.EtcdOptions{})
	url := "etcd://" + e.Addr() + freshPrefix()
	read, watch := make(chan struct{}), make(chan struct{})
	var once sync.Once
	stop := func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		o ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, req, reply, cc, o...)
		if method == "/etcdserverpb.KV/Range" {
			once.Do(func() { close(read); <-watch })
		}
		return err
	}
	c := openWith(t, url, 20*time.Second, nil)
	u := electiontest.Under(c.Documents(), electiontest.Win(t, c, "orders", "a").Claim())
	watcher := openWith(t, url, time.Minute, func(c *clientv3.Config) {
		c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(stop))
	})
	version, err := u.Put(t.Context(), 0, "1")
	must.Succeed(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	enough := errors.New("enough")
	ended := make(chan error, 1)
	go func() {
		ended <- watcher.Documents().Watch(ctx, "f/a", func(d documents.Document) error {
			if string(d.Data) == "3" {
				return enough
			}
			return nil
		})
	}()
	<-read
	for _, data := range []string{"2", "3"} {
		if version, err = u.Put(t.Context(), version, data); err != nil {
			t.Fatal(err)
		}
	}
	compact(t, etcdtest.Connect(t, e.Addr()))
	close(watch)
	if err := <-ended; err != enough {
		t.Errorf("the watch ended with %v", err)
	}
}

func TestAChangeAboveTheServersLimitIsTooLarge(t *testing.T) {
	t.Parallel()
	e := serverstest.Etcd(t, servers.EtcdOptions{Args: []string{"--max-request-bytes=100000"}})
	c := openWith(t, "etcd://"+e.Addr()+freshPrefix(), 20*time.Second, nil)
	u := electiontest.Under(c.Documents(), electiontest.Win(t, c, "orders", "a").Claim())
	for _, bytes := range []int{110_000, 1_000_000} { // the member refuses it; its gRPC server does
		if _, err := u.Put(t.Context(), 0, string(make([]byte, bytes))); !errors.Is(err,
			documents.ErrTooLarge) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}

func TestCheckpointsOutliveMembersThatAreKilled(t *testing.T) {
	t.Parallel()
	e := serverstest.Etcd(t, servers.EtcdOptions{Members: 3})
	prefix := freshPrefix()
	open := func(t testing.TB) documents.Coordinator {
		return openWith(t, "etcd://"+e.Addr()+prefix, 20*time.Second, nil)
	}
	journaltest.ThroughKills(t, open, 3, 12, func(n int, more func(string)) {
		m := e.Members[n%3]
		must.Succeed(t, m.Kill())
		more("the leader publishes without a member")
		must.Succeed(t, m.Start(t.Context()))
	})
}
