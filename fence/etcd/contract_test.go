package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/etcd/etcdtest"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/jobs/jobstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

func TestEtcdKeepsTheContract(t *testing.T) { fencetest.Run(t, harness(t)) }

func TestJobsKeepTheirContract(t *testing.T) { jobstest.Run(t, jobstest.On(harness(t))) }

func TestTheContractFindsFlawsOnEtcd(t *testing.T) { fencetest.RunFlaws(t, harness(t)) }

// harness connects the contract to the shared server.
func harness(t *testing.T) fencetest.Fixture { t.Helper(); h, _ := faultyHarness(t); return h }

// faultyHarness also returns the faults of each client.
func faultyHarness(t *testing.T) (fencetest.Fixture, func(elector.Coordinator) *faulty) {
	t.Helper()
	const timeout = 10 * time.Second // so that a busy machine does not expire what nobody cut
	server := serverstest.SharedEtcd(t).Addr()
	admin := etcdtest.Connect(t, server)
	var mu sync.Mutex
	clients := map[elector.Coordinator]*faulty{}
	of := func(c elector.Coordinator) *faulty { mu.Lock(); defer mu.Unlock(); return clients[c] }
	return fencetest.Fixture{
		Open: func(t testing.TB) elector.Coordinator {
			f := &faulty{relay: serverstest.NewRelay(t, server)}
			c := openWith(t, "etcd://"+f.relay.Addr()+"/contract", timeout, f.config)
			mu.Lock()
			defer mu.Unlock()
			clients[c] = f
			return c
		},
		SessionTimeout: timeout,
		Cut:            func(_ testing.TB, c elector.Coordinator) { of(c).relay.Hold() },
		Heal:           func(_ testing.TB, c elector.Coordinator) { of(c).relay.Pass() },
		Drop:           func(_ testing.TB, c elector.Coordinator) { of(c).relay.Drop() },
		Expire: func(t testing.TB, c elector.Coordinator) {
			s := c.(*Coordinator).campaigns.Current()
			if s == nil {
				return // it has never campaigned
			}
			if _, err := admin.Revoke(t.Context(), s.lease); err != nil &&
				!errors.Is(err, rpctypes.ErrLeaseNotFound) {
				t.Error(err)
			}
		},
		LoseReply: func(_ testing.TB, c elector.Coordinator) { of(c).loseReply.Store(true) },
		Delete: func(t testing.TB, r fence.Resource, token fence.Token) {
			deleteCandidate(t, admin, layout{"/contract"}.election(r), token)
		},
		Forget:   func(t testing.TB) { compact(t, admin) },
		Sessions: func(t testing.TB, rs ...fence.Resource) int { return leases(t, admin, rs) },
		Alone: func(t testing.TB) (c, operator elector.Coordinator) {
			url := "etcd://" + server + freshPrefix()
			return openWith(t, url, timeout, nil), openWith(t, url, timeout, nil)
		},
	}, of
}

var prefixes atomic.Int64

// freshPrefix is a prefix that no other test uses.
func freshPrefix() string { return fmt.Sprintf("/test-%d", prefixes.Add(1)) }

// faulty is a client whose traffic and replies a test controls.
type faulty struct {
	relay     *servers.Relay
	loseReply atomic.Bool
	hold      atomic.Pointer[onItsWay]
}

// onItsWay is a write that was sent and has not arrived.
type onItsWay struct{ sent, arrive chan struct{} }

func (f *faulty) config(c *clientv3.Config) {
	c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(f.lose, f.delay))
}

// delay holds the next transaction that writes on its way. Nobody can call it back.
func (f *faulty) delay(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	o ...grpc.CallOption,
) error {
	if writes(method, req) {
		if h := f.hold.Swap(nil); h != nil {
			close(h.sent)
			<-h.arrive
			ctx = context.WithoutCancel(ctx)
		}
	}
	return invoke(ctx, method, req, reply, cc, o...)
}

// writes reports whether a call is a transaction that puts or deletes keys.
func writes(method string, req any) bool {
	text := fmt.Sprint(req)
	return strings.HasSuffix(method, "/Txn") &&
		(strings.Contains(text, "request_put") || strings.Contains(text, "request_delete_range"))
}

// lose makes the next transaction that writes happen and loses its reply.
func (f *faulty) lose(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
	o ...grpc.CallOption,
) error {
	err := invoke(ctx, method, req, reply, cc, o...)
	if writes(method, req) && f.loseReply.CompareAndSwap(true, false) {
		return status.Error(codes.Unavailable, "the reply was lost")
	}
	return err
}

// openWith opens a coordinator and closes it with the test.
func openWith(
	t testing.TB, url string, timeout time.Duration, change func(*clientv3.Config),
) *Coordinator {
	t.Helper()
	for {
		c, err := open(t.Context(), url, Options{SessionTimeout: timeout}, change)
		if err == nil {
			t.Cleanup(func() { c.Close() })
			return c
		}
		if !errors.Is(err, ErrUnreachable) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

func deleteCandidate(t testing.TB, admin *clientv3.Client, election string, token fence.Token) {
	t.Helper()
	found, err := admin.Get(t.Context(), election, clientv3.WithPrefix(),
		clientv3.WithMinCreateRev(int64(token)), clientv3.WithMaxCreateRev(int64(token)))
	if err != nil || len(found.Kvs) != 1 {
		t.Fatalf("the candidate with token %s: %v, %v", token, found, err)
	}
	_, err = admin.Delete(t.Context(), string(found.Kvs[0].Key))
	must.Succeed(t, err)
}

// compact makes etcd forget every revision before the present one.
func compact(t testing.TB, admin *clientv3.Client) {
	t.Helper()
	now, err := admin.Get(t.Context(), "/")
	must.Succeed(t, err)
	_, err = admin.Compact(t.Context(), now.Header.Revision, clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) { // another test has compacted more
		t.Fatal(err)
	}
}

// leases counts the leases of the candidates of these elections.
func leases(t testing.TB, admin *clientv3.Client, rs []fence.Resource) int {
	t.Helper()
	at := layout{"/contract"}
	// With the values, because etcd 3.7 returns no lease with a key alone.
	all, err := admin.Get(t.Context(), at.prefix+"/elections/", clientv3.WithPrefix())
	must.Succeed(t, err)
	found := map[int64]bool{}
	for _, kv := range all.Kvs {
		if slices.ContainsFunc(rs, func(r fence.Resource) bool {
			return strings.HasPrefix(string(kv.Key), at.election(r))
		}) {
			found[kv.Lease] = true
		}
	}
	return len(found)
}
