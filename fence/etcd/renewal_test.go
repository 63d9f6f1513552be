package etcd

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/ringfence/ringfence/internal/cluster/clustertest"
	"github.com/ringfence/ringfence/internal/electiontest"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// etcd's leader renews a lease without asking its cluster. After a freeze it does so once more
// before it hears that another member leads, where the lease runs out without that renewal.
func TestARenewalThatOnlyADeposedMemberSawDoesNotCount(t *testing.T) {
	server := serverstest.Etcd(t, servers.EtcdOptions{Members: 3})
	admin := clustertest.Connect(t, server.Addr())
	limit := time.Now().Add(2 * time.Minute)
	for stale := 0; stale == 0; {
		if time.Now().After(limit) {
			t.Fatal("no deposed member has renewed a lease, so this test proves nothing")
		}
		leader, term := leads(t, admin, server.Members, 0)
		renewals := make([]*renewal, 8)
		for i := range renewals {
			renewals[i] = newRenewal(t, leader)
		}
		if err := leader.Pause(); err != nil {
			t.Fatal(err)
		}
		_, next := leads(t, admin, others(server, leader), term+1)
		for _, r := range renewals {
			r.beat(t)
		}
		if err := leader.Resume(); err != nil {
			t.Fatal(err)
		}
		for _, r := range renewals {
			if old := r.wait(t, next); old {
				stale++
			}
		}
	}
}

// renewal is one beat of a session that has only one member to ask.
type renewal struct {
	s        *session
	start    time.Time
	send     sync.Once
	sent     chan struct{} // closed when the lease's renewal is on its way
	result   chan error
	answered atomic.Uint64 // the Raft term in the answer to it
}

func newRenewal(t *testing.T, member *servers.EtcdMember) *renewal {
	t.Helper()
	r := &renewal{sent: make(chan struct{}), result: make(chan error, 1)}
	c := openWith(t, "etcd://"+member.Addr()+freshPrefix(), time.Minute, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(r.intercept))
	})
	s, err := c.grant(t.Context()) // nobody else makes it beat
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	r.s = s
	return r
}

// beat returns when the request is on its way.
func (r *renewal) beat(t *testing.T) {
	t.Helper()
	r.start = time.Now()
	go func() { r.result <- r.s.Beat(r.start) }()
	select {
	case <-r.sent:
	case err := <-r.result:
		t.Fatalf("no renewal was sent: %v", err)
	}
}

// wait waits for the beat, and returns whether a member renewed the lease that led before next.
func (r *renewal) wait(t *testing.T, next uint64) (old bool) {
	t.Helper()
	err := <-r.result
	confirmed, failed := r.s.Renewed(t.Context())
	if failed != nil {
		t.Fatal(failed)
	}
	old = r.answered.Load() != 0 && r.answered.Load() < next
	if counts := confirmed.Equal(r.start); old && (counts || err == nil) {
		t.Errorf("a renewal in term %d counts, and the cluster was in term %d: %v",
			r.answered.Load(), next, err)
	}
	return old
}

func (r *renewal) intercept(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, o ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, cc, method, o...)
	return &renewalStream{stream, r}, err
}

type renewalStream struct {
	grpc.ClientStream
	r *renewal
}

func (s *renewalStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	if _, ok := m.(*etcdserverpb.LeaseKeepAliveRequest); ok {
		s.r.send.Do(func() { close(s.r.sent) })
	}
	return err
}

func (s *renewalStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if answer, ok := m.(*etcdserverpb.LeaseKeepAliveResponse); ok && err == nil {
		s.r.answered.Store(answer.Header.RaftTerm)
	}
	return err
}

// leads waits until these members agree on a leader in this Raft term or a later one.
func leads(
	t *testing.T, admin *clientv3.Client, members []*servers.EtcdMember, from uint64,
) (leader *servers.EtcdMember, term uint64) {
	t.Helper()
	electiontest.Eventually(t, "the members agree on a leader", func() bool {
		leader, term = nil, 0
		for i, m := range members {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			status, err := admin.Status(ctx, m.Addr())
			cancel()
			if err != nil || status.RaftTerm < from || i > 0 && status.RaftTerm != term {
				return false
			}
			term = status.RaftTerm
			if status.Leader == status.Header.MemberId {
				leader = m
			}
		}
		return leader != nil
	})
	return leader, term
}

// others are the members of a cluster but one.
func others(server *servers.Etcd, one *servers.EtcdMember) (rest []*servers.EtcdMember) {
	for _, m := range server.Members {
		if m != one {
			rest = append(rest, m)
		}
	}
	return rest
}
