package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/leak"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// It looks at every goroutine of the process, so it runs alone.
func TestCloseIsQuickAndLeavesNothing(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	admin := zookeepertest.Connect(t, ensemble)
	before := goleak.IgnoreCurrent()
	c := openFor(t, "zk://"+ensemble+"/closing", time.Minute)
	electiontest.Win(t, c, "orders", "a")
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Campaign(context.Background(), "orders", "b")
		waiting <- err
	}()
	zookeepertest.Eventually(t, "both are enrolled", func() bool {
		names, _, _ := admin.Children("/closing/elections/orders")
		return len(names) == 2
	})
	begin := time.Now()
	c.Close()
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("Close took %v", took)
	}
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("the waiting campaign returned %v", err)
	}
	must.Report(t, leak.Find(before))
	// The sessions would last longer without Close.
	zookeepertest.Eventually(t, "nobody is enrolled", func() bool {
		names, _, err := admin.Children("/closing/elections/orders")
		return err == nil && len(names) == 0
	})
}

// So a waiting goroutine reads again, and the library has no watch to set again.
func TestWatchesFireWhenTheConnectionBreaks(t *testing.T) {
	t.Parallel()
	r := zookeepertest.NewRelay(t, serverstest.SharedZooKeeper(t).Addr())
	c := openFor(t, "zk://"+r.Addr()+"/watches", 20*time.Second)
	term := electiontest.Win(t, c, "orders", "a")
	waiting := make(chan *fence.Term, 1)
	woken := make(chan string, 100)
	other := openFor(t, "zk://"+r.Addr()+"/watches", 20*time.Second)
	other.woken = func(_ fence.Resource, holder string) { woken <- holder }
	go func() {
		term, _ := other.Campaign(t.Context(), "orders", "b")
		waiting <- term
	}()
	zookeepertest.Eventually(t, "b waits", func() bool {
		queue, err := c.Candidates(t.Context(), "orders")
		return err == nil && len(queue) == 2
	})
	for range 3 {
		before := r.Greetings()
		r.Drop()
		zookeepertest.Eventually(t, "both campaigns are back", func() bool {
			return r.Greetings() >= before+2
		})
		confirmedAgain(t, term)
	}
	if set := r.Count(zookeepertest.SetWatches); set != 0 {
		t.Errorf("the library has set watches again %d times", set)
	}
	must.Report(t, term.Resign(t.Context()))
	if next := <-waiting; next == nil {
		t.Error("b does not lead")
	}
}
