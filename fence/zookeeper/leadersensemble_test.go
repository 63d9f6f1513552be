package zookeeper

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// apart returns a follower and the other nodes.
func apart(
	t *testing.T, z *servers.ZooKeeper,
) (alone *servers.ZooKeeperNode, others []*servers.ZooKeeperNode) {
	t.Helper()
	alone = inMode(t, z, "follower")
	return alone, slices.DeleteFunc(slices.Clone(z.Nodes), func(n *servers.ZooKeeperNode) bool {
		return n == alone
	})
}

// stop pauses servers until the test ends or they are resumed.
func stop(t *testing.T, nodes ...*servers.ZooKeeperNode) {
	t.Helper()
	for _, n := range nodes {
		must.Succeed(t, n.Pause())
		t.Cleanup(func() { n.Resume() })
	}
}

func resume(t *testing.T, nodes ...*servers.ZooKeeperNode) {
	t.Helper()
	for _, n := range nodes {
		must.Succeed(t, n.Resume())
	}
}

// firstAnswer calls Leaders until there is an answer, and returns the first one.
func firstAnswer(t *testing.T, c *Coordinator) string {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		issuer, leaders, err := c.Leaders(ctx, "orders", "invoices")
		switch {
		case err == nil:
			return answerOf(issuer, leaders[0].Holder, leaders[1].Holder)
		case ctx.Err() != nil:
			return err.Error()
		}
	}
}

func answerOf(issuer fence.Issuer, holders ...string) string {
	return fmt.Sprintf("%s %q", issuer, holders)
}

func eventuallyNames(t *testing.T, c *Coordinator, issuer fence.Issuer, holders ...string) {
	t.Helper()
	if got, want := firstAnswer(t, c), answerOf(issuer, holders...); got != want {
		t.Errorf("the answer is %s; want %s", got, want)
	}
}

// For two seconds here, such a server still answers plain reads.
func TestAServerWithoutItsEnsembleNamesNoLeader(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 3})
	alone, others := apart(t, z)
	elector := openFor(t, "zk://"+z.Addr(), time.Minute)
	electiontest.Win(t, elector, "orders", "a")
	warm := openFor(t, "zk://"+alone.Addr(), time.Minute)
	cold := openFor(t, "zk://"+alone.Addr(), time.Minute)
	issuer, _ := named(t, warm, "orders", "invoices")
	stop(t, others...)
	for name, c := range map[string]*Coordinator{"with a cache": warm, "without a cache": cold} {
		ctx, cancel := context.WithTimeout(t.Context(), 800*time.Millisecond)
		defer cancel()
		if issuer, leaders, err := c.Leaders(ctx, "orders", "invoices"); err == nil {
			t.Errorf("%s: a server without its ensemble returned %q, %+v", name, issuer, leaders)
		}
	}
	resume(t, others...)
	eventuallyNames(t, warm, issuer, "a", "")
	eventuallyNames(t, cold, issuer, "a", "")
}

// The request reaches the server before it knows the new leader and the new issuer.
func TestAServerThatWasLeftBehindNamesTheNewLeader(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 3})
	alone, others := apart(t, z)
	elector := openFor(t, "zk://"+others[0].Addr()+","+others[1].Addr(), time.Minute)
	old := electiontest.Win(t, elector, "orders", "a")
	relays := []*zookeepertest.Relay{zookeepertest.NewRelay(t, alone.Addr()),
		zookeepertest.NewRelay(t, alone.Addr())}
	warm := openFor(t, "zk://"+relays[0].Addr(), time.Minute)
	cold := openFor(t, "zk://"+relays[1].Addr(), time.Minute)
	wantNamed(t, warm, []fence.Resource{"orders", "invoices"}, "a", "")
	relays[0].Requested()
	relays[1].Requested()

	stop(t, alone)
	if found, err := elector.Depose(t.Context(), "orders", old.Token()); !found || err != nil {
		t.Fatal(found, err)
	}
	electiontest.Win(t, elector, "orders", "b")
	electiontest.Win(t, elector, "invoices", "c")
	issuer, err := elector.RenewIssuer(t.Context())
	must.Succeed(t, err)
	told := make(chan string, 2)
	for _, c := range []*Coordinator{warm, cold} {
		go func() { told <- firstAnswer(t, c) }()
	}
	zookeepertest.Eventually(t, "both questions are with the server", func() bool {
		asked := 0
		for _, r := range relays {
			asked += min(1, r.Count(zookeepertest.Multi)+r.Count(zookeepertest.GetData))
		}
		return asked == 2
	})
	resume(t, alone)
	for range 2 {
		if got, want := <-told, answerOf(issuer, "b", "c"); got != want {
			t.Errorf("the answer is %s; want %s", got, want)
		}
	}
}

func TestLeadersAreRightAfterTheDeathOfTheEnsemblesLeader(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 3})
	c, elector := openFor(t, "zk://"+z.Addr(), time.Minute), openFor(t, "zk://"+z.Addr(), time.Minute)
	a := electiontest.Win(t, elector, "orders", "a")
	issuer, _ := named(t, c, "orders", "invoices")
	must.Succeed(t, inMode(t, z, "leader").Kill())
	eventuallyNames(t, c, issuer, "a", "")
	// The other client may not have found a server yet.
	zookeepertest.Eventually(t, "a is deposed", func() bool {
		_, err := elector.Depose(t.Context(), "orders", a.Token())
		return err == nil
	})
	eventuallyNames(t, c, issuer, "", "")
	electiontest.Win(t, elector, "orders", "b")
	eventuallyNames(t, c, issuer, "b", "")
}

// It does not name the leader from before.
func TestAWipedOrRestoredEnsembleNamesWhoLeadsThere(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	c := openFor(t, "zk://"+z.Addr(), time.Minute)
	elector := openFor(t, "zk://"+z.Addr(), time.Minute)
	a := electiontest.Win(t, elector, "orders", "a")
	before, _ := named(t, c, "orders", "invoices")
	must.Succeed(t, z.Backup())
	must.Succeed(t, a.Resign(t.Context()))
	electiontest.Win(t, elector, "orders", "b")
	electiontest.Win(t, elector, "invoices", "c")
	eventuallyNames(t, c, before, "b", "c")
	must.Succeed(t, z.Restore(t.Context()))
	eventuallyNames(t, c, before, "a", "") // a's restored session lasts until it times out
	must.Succeed(t, z.Wipe(t.Context()))
	other := openFor(t, "zk://"+z.Addr(), time.Minute)
	issuer, err := other.Issuer(t.Context()) // a new one, with the same version as the one before
	if err != nil || issuer == before {
		t.Fatalf("the wiped ensemble is %q, before it was %q; %v", issuer, before, err)
	}
	eventuallyNames(t, c, issuer, "", "")
	electiontest.Win(t, other, "invoices", "d")
	eventuallyNames(t, c, issuer, "", "d")
}
