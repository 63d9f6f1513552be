package zookeeper

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// named calls Leaders and returns the issuer and the holders.
func named(t testing.TB, c *Coordinator, rs ...fence.Resource) (fence.Issuer, []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	issuer, leaders, err := c.Leaders(ctx, rs...)
	if err != nil {
		t.Fatalf("who leads %v: %v", rs, err)
	}
	holders := []string{}
	for _, l := range leaders {
		holders = append(holders, l.Holder)
	}
	return issuer, holders
}

func wantNamed(t testing.TB, c *Coordinator, rs []fence.Resource, want ...string) {
	t.Helper()
	if _, got := named(t, c, rs...); !slices.Equal(got, want) {
		t.Errorf("the leaders of %v are %q; want %q", rs, got, want)
	}
}

func TestLeadersIsOneRequestWhileNothingChanges(t *testing.T) {
	t.Parallel()
	const multi, getChildren = zookeepertest.Multi, zookeepertest.GetChildren2
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	r := zookeepertest.NewRelay(t, ensemble)
	c := openFor(t, "zk://"+r.Addr()+root, 50*time.Second)
	elector := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	term := electiontest.Win(t, elector, "orders", "a")
	electiontest.Win(t, elector, "invoices", "b")
	wantNamed(t, c, []fence.Resource{"orders", "invoices"}, "a", "b")
	oneRequest := func(want map[uint32]int, ask ...fence.Resource) {
		t.Helper()
		r.Requested()
		named(t, c, ask...)
		if got := r.Requested(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("asking for %v made the requests %v; want %v", ask, got, want)
		}
	}
	once := map[uint32]int{multi: 1}
	oneRequest(once)
	oneRequest(once, "orders")
	oneRequest(once, "invoices", "orders", "invoices")
	must.Succeed(t, term.Acknowledge(t.Context()))
	oneRequest(once, "orders")
	// Another candidate waits.
	zookeepertest.Craft(t, zookeepertest.Connect(t, ensemble), c.dir("orders"), "crafted",
		"0000000000", zk.FlagEphemeral)
	oneRequest(once, "orders")
	oneRequest(map[uint32]int{multi: 1, getChildren: 1}, "nobodys", "orders")
}

// No notice of a watch arrives here.
func TestTheVersionShowsARenewedIssuer(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	r := zookeepertest.NewRelay(t, ensemble)
	r.Set(func() { r.Mute = true })
	c := openFor(t, "zk://"+r.Addr()+root, 50*time.Second)
	operator := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	electiontest.Win(t, operator, "orders", "a")
	for range 3 {
		before, _ := named(t, c, "orders")
		renewed, err := operator.RenewIssuer(t.Context())
		must.Succeed(t, err)
		if now, _ := named(t, c, "orders"); now != renewed || now == before {
			t.Errorf("issuer %q was renewed to %q; the answer is %q", before, renewed, now)
		}
	}
}

// The new znode has version 0, like the one before.
func TestTheWatchShowsAnIssuerThatIsCreatedAgain(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	c := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	admin := zookeepertest.Connect(t, ensemble)
	electiontest.Win(t, c, "orders", "a")
	for range 20 {
		before, _ := named(t, c, "orders")
		made := makeIssuerAnew(t, admin, root)
		if now, _ := named(t, c, "orders"); now != made || now == before {
			t.Fatalf("the issuer was %q and is %q; the answer is %q", before, made, now)
		}
	}
}

// makeIssuerAnew deletes the issuer's znode and creates another one.
func makeIssuerAnew(t testing.TB, admin *zk.Conn, root string) fence.Issuer {
	t.Helper()
	at, id := root+"/issuer", zookeepertest.NewUUID()
	_, err := admin.Multi(&zk.DeleteRequest{Path: at, Version: -1},
		&zk.CreateRequest{Path: at, Data: []byte(id), Acl: zk.WorldACL(zk.PermAll)})
	must.Succeed(t, err)
	if _, stat, err := admin.Get(at); err != nil || stat.Version != 0 {
		t.Fatalf("the new issuer has version %d, so this test proves nothing; %v", stat.Version, err)
	}
	return fence.Issuer("zk:" + id)
}

// The relay passes reads and drops transactions. Reads alone must not be enough.
func TestLeadersNeedsATransaction(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	elector := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	electiontest.Win(t, elector, "orders", "a")
	for name, seen := range map[string][]fence.Resource{
		"with a cache":    {"orders"},
		"without a cache": nil,
	} {
		for _, ask := range []fence.Resource{"orders", "nobodys"} {
			t.Run(name+"/"+string(ask), func(t *testing.T) {
				t.Parallel()
				r := zookeepertest.NewRelay(t, ensemble)
				c := openFor(t, "zk://"+r.Addr()+root, 5*time.Second)
				named(t, c, seen...)
				r.Set(func() { r.Swallow = true })
				if issuer, leaders, err := c.Leaders(t.Context(), ask); err == nil {
					t.Errorf("without a transaction it returned %q, %+v", issuer, leaders)
				}
				if issuer, leaders, err := c.Leaders(t.Context()); err == nil {
					t.Errorf("without a transaction it returned %q, %+v", issuer, leaders)
				}
				r.Set(func() { r.Swallow = false })
				if ask == "orders" {
					wantNamed(t, c, []fence.Resource{ask}, "a")
				}
			})
		}
	}
}
