package etcd

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/etcd/etcdtest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// While etcd has no space left, nobody can enrol. So a leader that gave up its term, because it
// could not acknowledge it, would leave nobody to lead.
func TestATermIsKeptWhileEtcdHasNoSpace(t *testing.T) {
	t.Parallel()
	server := serverstest.Etcd(t,
		servers.EtcdOptions{Args: []string{"--quota-backend-bytes", "300000"}})
	admin := etcdtest.Connect(t, server.Addr())
	c := openWith(t, "etcd://"+server.Addr(), 10*time.Second, nil)
	first, deposed := electiontest.Win(t, c, "orders", "a"), electiontest.Win(t, c, "stock", "a")
	next := electiontest.Stand(t, openWith(t, "etcd://"+server.Addr(), 10*time.Second, nil), "orders",
		"b")
	fill(t, admin)

	if err := first.Acknowledge(t.Context()); err != nil || first.State() == fence.Lost {
		t.Fatalf("the first leader is %v: %v", first.State(), err)
	}
	deleteCandidate(t, admin, c.election("stock"), deposed.Token())
	if err := deposed.Acknowledge(t.Context()); !errors.Is(err, fence.ErrLost) {
		t.Errorf("a deposed leader acknowledges: %v", err)
	}
	must.Succeed(t, first.Resign(t.Context()))
	leader := electiontest.Next(t, next)
	if err := leader.Acknowledge(t.Context()); err != nil || leader.State() == fence.Lost {
		t.Fatalf("the next leader is %v: %v", leader.State(), err)
	}
	if electiontest.Queued(t, c, "orders", 1)[0].Ready {
		t.Error("etcd has space, so this test proves nothing")
	}

	makeSpace(t, admin, server.Addr())
	electiontest.Eventually(t, "the leader is shown as ready", func() bool {
		queue, err := c.Candidates(t.Context(), "orders")
		return err == nil && len(queue) == 1 && queue[0].Ready && queue[0].Token == leader.Token()
	})
}

func TestAnErrorSaysWhatToDoIfEtcdHasNoSpace(t *testing.T) {
	t.Parallel()
	server := serverstest.Etcd(t,
		servers.EtcdOptions{Args: []string{"--quota-backend-bytes", "300000"}})
	c := openWith(t, "etcd://"+server.Addr(), 2*time.Second, nil)
	fill(t, etcdtest.Connect(t, server.Addr()))
	if _, err := c.grant(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "disarm its alarm") {
		t.Errorf("a session that cannot be opened: %v", err)
	}
}

// fill writes until etcd refuses.
func fill(t *testing.T, admin *clientv3.Client) {
	t.Helper()
	value := strings.Repeat("x", 50_000)
	for i := 0; ; i++ {
		_, err := admin.Put(t.Context(), fmt.Sprint("/fill/", i), value)
		switch {
		case errors.Is(err, rpctypes.ErrNoSpace):
			return
		case err != nil:
			t.Fatal(err)
		}
	}
}

// makeSpace does what an operator has to do.
func makeSpace(t *testing.T, admin *clientv3.Client, member string) {
	t.Helper()
	ctx := t.Context()
	_, err := admin.Delete(ctx, "/fill/", clientv3.WithPrefix())
	must.Succeed(t, err)
	compact(t, admin)
	_, err = admin.Defragment(ctx, member)
	must.Succeed(t, err)
	_, err = admin.AlarmDisarm(ctx, &clientv3.AlarmMember{})
	must.Succeed(t, err)
}
