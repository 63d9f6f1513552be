package etcd

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/ringfence/ringfence/fence/etcd/etcdtest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// etcd's leader renews a lease without asking its cluster, also once it is deposed and has not
// heard of that. Whether a real one does so after a freeze is a race, so the test repeats an answer
// that the leader gave before it was deposed. A client cannot tell the two apart.
func TestARenewalThatOnlyADeposedMemberSawDoesNotCount(t *testing.T) {
	t.Parallel()
	server := serverstest.Etcd(t, servers.EtcdOptions{Members: 3})
	old := &oldAnswer{}
	c := openWith(t, "etcd://"+server.Addr(), 10*time.Second, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainStreamInterceptor(old.intercept))
	})
	s, err := c.grant(t.Context()) // nobody else makes it beat
	must.Succeed(t, err)
	t.Cleanup(s.Close)
	beat := func() (counts bool, err error) {
		start := time.Now()
		err = s.Beat(start)
		confirmed, failed := s.Renewed(t.Context())
		if failed != nil {
			t.Fatal(failed)
		}
		return confirmed.Equal(start), err
	}
	electiontest.Eventually(t, "a renewal counts", func() bool { counts, _ := beat(); return counts })

	elect(t, server)
	old.repeats.Store(true)
	if counts, err := beat(); counts || err == nil {
		t.Errorf("a renewal of the deposed leader counts: %v, %v", counts, err)
	}
	old.repeats.Store(false)
	electiontest.Eventually(t, "a renewal by the new leader counts", func() bool {
		counts, _ := beat()
		return counts
	})
}

// elect makes another member the leader.
func elect(t *testing.T, server *servers.Etcd) {
	t.Helper()
	admin := etcdtest.Connect(t, server.Addr())
	leader, term := leads(t, admin, server.Members, 0)
	next, err := admin.Status(t.Context(), others(server, leader)[0].Addr())
	must.Succeed(t, err)
	_, err = etcdtest.Connect(t, leader.Addr()).MoveLeader(t.Context(), next.Header.MemberId)
	must.Succeed(t, err)
	leads(t, admin, server.Members, term+1)
}

// oldAnswer keeps the last answer to a renewal, and gives it again while it repeats.
type oldAnswer struct {
	repeats atomic.Bool
	last    atomic.Pointer[etcdserverpb.LeaseKeepAliveResponse]
}

func (o *oldAnswer) intercept(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := streamer(ctx, desc, cc, method, opts...)
	return &oldStream{stream, o}, err
}

type oldStream struct {
	grpc.ClientStream
	o *oldAnswer
}

func (s *oldStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	answer, ok := m.(*etcdserverpb.LeaseKeepAliveResponse)
	switch {
	case !ok || err != nil:
	case s.o.repeats.Load():
		answer.Header, answer.TTL = s.o.last.Load().Header, s.o.last.Load().TTL
	default:
		s.o.last.Store(&etcdserverpb.LeaseKeepAliveResponse{Header: answer.Header, TTL: answer.TTL})
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
