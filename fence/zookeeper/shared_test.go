package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestNeitherOfTwoCandidatesWithOneTokenLeads(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	c := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	admin := zookeepertest.Connect(t, ensemble)
	old := electiontest.Win(t, c, "orders", "a")
	_, token := zookeepertest.CraftTwins(t, admin, c.dir("orders"))
	wantNamed(t, c, []fence.Resource{"orders"}, "a") // they wait
	queue, err := c.Candidates(t.Context(), "orders")
	if err != nil || len(queue) != 3 || queue[0].Holder != "a" {
		t.Errorf("while they wait the queue is %+v, %v", queue, err)
	}
	must.Succeed(t, old.Resign(t.Context()))

	_, _, leaders := c.Leaders(t.Context(), "orders")
	_, candidates := c.Candidates(t.Context(), "orders")
	watch := c.Watch(t.Context(), "orders", func(queue []elector.Candidate) error {
		return fmt.Errorf("seen is %+v", queue)
	})
	for call, err := range map[string]error{"Leaders": leaders, "Candidates": candidates,
		"Watch": watch} {
		if !errors.Is(err, errShared) {
			t.Errorf("%s returned %v", call, err)
		}
	}

	if found, err := c.Depose(t.Context(), "orders", token); !found || err != nil {
		t.Errorf("deposing both: %v, %v", found, err)
	}
	wantNamed(t, c, []fence.Resource{"orders"}, "")
	if next := electiontest.Win(t, c, "orders", "b"); next.Token() <= token {
		t.Errorf("token %v follows %v", next.Token(), token)
	}
}

// The relay creates a second candidate in the same transaction.
func TestAnEnrolmentThatSharesItsTokenIsRefused(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	r := zookeepertest.NewRelay(t, ensemble)
	c := openFor(t, "zk://"+r.Addr()+root, 50*time.Second)
	admin := zookeepertest.Connect(t, ensemble)
	if err := electiontest.Win(t, c, "orders", "a").Resign(t.Context()); err != nil {
		// makes the election
		t.Fatal(err)
	}
	r.Set(func() { r.Twin = true })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	term, err := c.Campaign(ctx, "orders", "b")
	if !errors.Is(err, errShared) {
		t.Fatalf("Campaign returned %v, %v", term, err)
	}
	// Here both are in one session.
	zookeepertest.Eventually(t, "nothing is left behind", func() bool {
		names, _, err := admin.Children(c.dir("orders"))
		return err == nil && len(names) == 0
	})
	electiontest.Win(t, c, "orders", "b")
}
