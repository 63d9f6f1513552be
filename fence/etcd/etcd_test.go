package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/etcd/etcdtest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// fresh opens a coordinator at the shared server with a prefix of its own.
func fresh(t *testing.T, timeout time.Duration) (c *Coordinator, url string) {
	t.Helper()
	url = "etcd://" + serverstest.SharedEtcd(t).Addr() + freshPrefix()
	return openWith(t, url, timeout, nil), url
}

func TestADeathInALargeElectionWakesOneCandidate(t *testing.T) {
	t.Parallel()
	const candidates = 300
	c, url := fresh(t, 10*time.Second)
	leader := electiontest.Win(t, c, "orders", "leader")
	var woken electiontest.Woken
	crowd := openWith(t, url, 10*time.Second, nil)
	crowd.woken = woken.Add
	won := electiontest.Crowd(t, crowd, "orders", candidates)
	queue := electiontest.Queued(t, c, "orders", candidates+1)
	woken.OnlyNext(t, leader, queue, won, 3)
}

func TestAProcessThatLeadsManyElectionsHasOneLease(t *testing.T) {
	t.Parallel()
	c, _ := fresh(t, 10*time.Second) // longer than a busy machine stalls
	admin := etcdtest.Connect(t, serverstest.SharedEtcd(t).Addr())
	const elections = 250 // more than fit into one transaction
	terms := make([]*fence.Term, elections)
	resources := make([]fence.Resource, elections)
	var all sync.WaitGroup
	for i := range elections {
		resources[i] = fence.Resource(fmt.Sprintf("r%d", i))
		all.Go(func() { terms[i] = electiontest.Win(t, c, resources[i], "host") })
	}
	all.Wait()
	s := c.campaigns.Current()
	lease, err := admin.TimeToLive(t.Context(), s.lease, clientv3.WithAttachedKeys())
	if err != nil || len(lease.Keys) != elections {
		t.Errorf("%d keys under the lease, %v", len(lease.Keys), err)
	}
	first := make([]time.Time, elections)
	for i, term := range terms {
		first[i] = term.Deadline()
	}
	for i, term := range terms {
		electiontest.Eventually(t, "every term is confirmed by the one lease", func() bool {
			return term.Deadline().After(first[i])
		})
	}
	_, leaders, err := c.Leaders(t.Context(), resources...)
	if err != nil || len(leaders) != elections {
		t.Fatalf("%d leaders, %v", len(leaders), err)
	}
	for i, leader := range leaders {
		if leader.Token != terms[i].Token() {
			t.Errorf("%s: %s leads, not %s", resources[i], leader.Token, terms[i].Token())
		}
	}
}

// etcd says that a lease in its last second has 0 s left; one of 1 s is never told anything else.
func TestADepositionDoesNotEndALeaseInItsLastSecond(t *testing.T) {
	t.Parallel()
	url := "etcd://" + serverstest.SharedEtcd(t).Addr() + freshPrefix()
	c := openWith(t, url, 10*time.Second, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
			invoke grpc.UnaryInvoker, o ...grpc.CallOption,
		) error {
			err := invoke(ctx, method, req, reply, cc, o...)
			if lease, ok := reply.(*etcdserverpb.LeaseTimeToLiveResponse); ok && lease.TTL > 0 {
				lease.TTL = 0
			}
			return err
		}))
	})
	admin := etcdtest.Connect(t, serverstest.SharedEtcd(t).Addr())
	kept, gone := electiontest.Win(t, c, "stock", "a"), electiontest.Win(t, c, "orders", "a")
	deleteCandidate(t, admin, c.election("orders"), gone.Token())
	electiontest.Eventually(t, "the deposed one knows", func() bool {
		return gone.State() == fence.Lost
	})
	if why := context.Cause(gone.Context()); !errors.Is(why, fence.ErrDeposed) {
		t.Errorf("it was deposed: %v", why)
	}
	if kept.State() == fence.Lost {
		t.Errorf("the other term of the session: %v", context.Cause(kept.Context()))
	}
}

// Two keys of one transaction have one create revision. Both would lead.
func TestCandidatesThatShareARevisionDoNotLead(t *testing.T) {
	t.Parallel()
	c, _ := fresh(t, 10*time.Second)
	admin := etcdtest.Connect(t, serverstest.SharedEtcd(t).Addr())
	dir := c.election("orders")
	_, err := admin.Txn(t.Context()).Then(clientv3.OpPut(dir+"twin1", "{}"),
		clientv3.OpPut(dir+"twin2", "{}")).Commit()
	must.Succeed(t, err)
	if _, leaders, err := c.Leaders(t.Context(), "orders"); !errors.Is(err, errShared) {
		t.Errorf("who leads: %v, %v", leaders, err)
	}
	s, err := c.campaigns.Session(t.Context())
	must.Succeed(t, err)
	twin := electiontest.Queued(t, c, "orders", 2)[0].Token
	e := s.Candidate("orders", "a")
	e.Key = dir + "twin1"
	e.Enrolled(twin)
	if _, _, err := e.Await(t.Context()); !errors.Is(err, errShared) {
		t.Errorf("a twin leads: %v", err)
	}
}

// A request may arrive after its sender has given up. The candidate that it makes belongs to
// nobody, and the lease that it is under is renewed for the sender's other candidates.
func TestAnEnrolmentThatArrivesLateHoldsUpNobody(t *testing.T) {
	t.Parallel()
	url := "etcd://" + serverstest.SharedEtcd(t).Addr() + freshPrefix()
	sent, arrive := make(chan struct{}), make(chan struct{})
	var once sync.Once
	late := func(
		ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		o ...grpc.CallOption,
	) error {
		if method != "/etcdserverpb.KV/Txn" || !contains(req, "late") {
			return invoke(ctx, method, req, reply, cc, o...)
		}
		once.Do(func() {
			close(sent)
			<-arrive
		})
		return invoke(context.WithoutCancel(ctx), method, req, reply, cc, o...)
	}
	c := openWith(t, url, 10*time.Second, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(late))
	})
	keeper := electiontest.Win(t, c, "stock", "a") // so that the lease lives on
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Campaign(ctx, "orders", "late")
		ended <- err
	}()
	<-sent
	giveUp()
	close(arrive)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the campaign ended with %v", err)
	}
	other := openWith(t, url, 10*time.Second, nil)
	if term := electiontest.Win(t, other, "orders", "b"); term.State() != fence.Active {
		t.Error("nobody leads")
	}
	electiontest.Queued(t, other, "orders", 1)
	if keeper.State() == fence.Lost {
		t.Errorf("the other term is lost: %v", context.Cause(keeper.Context()))
	}
}

func contains(req any, what string) bool { return strings.Contains(fmt.Sprint(req), what) }

func TestAClusterThatIsBuiltAgainIsAnotherIssuer(t *testing.T) {
	t.Parallel()
	server := serverstest.Etcd(t, servers.EtcdOptions{})
	c := openWith(t, "etcd://"+server.Addr(), 2*time.Second, nil)
	before, err := c.Issuer(t.Context())
	must.Succeed(t, err)
	old := electiontest.Win(t, c, "orders", "a")
	must.Succeed(t, server.Wipe(t.Context()))
	again := electiontest.Win(t, c, "orders", "b")
	if old.State() != fence.Lost {
		t.Error("the term of the cluster that is gone goes on")
	}
	after, err := c.Issuer(t.Context())
	if err != nil || after == before || again.Claim().Issuer != after {
		t.Errorf("the issuer was %s and is %s, the term's is %s, %v", before, after, again.Claim().Issuer,
			err)
	}
}

func TestATermOutlivesTheDeathOfAMember(t *testing.T) {
	t.Parallel()
	server := serverstest.Etcd(t, servers.EtcdOptions{Members: 3})
	c := openWith(t, "etcd://"+server.Addr(), 10*time.Second, nil)
	term := electiontest.Win(t, c, "orders", "a")
	for _, m := range server.Members {
		must.Succeed(t, m.Kill())
		first := term.Deadline()
		electiontest.Eventually(t, "the term is confirmed without "+m.Addr(), func() bool {
			return term.Deadline().After(first)
		})
		must.Succeed(t, m.Start(t.Context()))
	}
	if term.State() == fence.Lost {
		t.Errorf("the term is lost: %v", context.Cause(term.Context()))
	}
	other := openWith(t, "etcd://"+server.Addr(), 10*time.Second, nil)
	if _, leaders, err := other.Leaders(t.Context(), "orders"); err != nil ||
		leaders[0].Token != term.Token() {
		t.Errorf("%v leads, %v", leaders, err)
	}
}

func TestAWaitingCandidateFindsALostNotice(t *testing.T) {
	t.Parallel()
	c, url := fresh(t, 10*time.Second)
	leader := electiontest.Win(t, c, "orders", "leader")
	other := openWith(t, url, 10*time.Second, nil)
	campaign := make(chan error, 1)
	go func() {
		_, err := other.Campaign(t.Context(), "orders", "next")
		campaign <- err
	}()
	electiontest.Queued(t, c, "orders", 2)
	var e *candidate
	electiontest.Eventually(t, "the campaign has enrolled", func() bool {
		for _, e = range other.campaigns.Current().Enrolled() {
			return true
		}
		return false
	})
	at, err := e.position(t.Context())
	if err != nil || at.before == nil {
		t.Fatalf("got %+v, %v", at, err)
	}
	if !e.unchanged(t.Context(), at) {
		t.Error("nothing has changed")
	}
	must.Succeed(t, leader.Resign(t.Context()))
	if e.unchanged(t.Context(), at) {
		t.Error("the leader has gone")
	}
	at.revision += 1000 // so that the watch begins after the resignation
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := e.wait(ctx, at); err != nil {
		t.Errorf("it waits for a notice: %v", err)
	}
	must.Succeed(t, <-campaign)
	_, err = c.Depose(t.Context(), "orders", e.Token())
	must.Succeed(t, err)
	if e.unchanged(t.Context(), at) {
		t.Error("the candidate itself is gone")
	}
}
