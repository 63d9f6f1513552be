package zookeeper

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// crowd is N campaigns for one resource through one relay, each of another process.
type crowd struct {
	t      *testing.T
	relay  *zookeepertest.Relay
	watch  *Coordinator
	cancel map[string]context.CancelFunc
	won    chan *fence.Term

	mu    sync.Mutex
	woken []string
}

func newCrowd(t *testing.T, n int) *crowd {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	cr := &crowd{t: t, relay: zookeepertest.NewRelay(t, ensemble),
		cancel: map[string]context.CancelFunc{}, won: make(chan *fence.Term, n)}
	cr.watch = openFor(t, "zk://"+ensemble+"/crowd", time.Minute)
	for i := range n {
		// The timeout after which they read even if no watch fires.
		c := openFor(t, "zk://"+cr.relay.Addr()+"/crowd", time.Minute)
		c.woken = func(_ fence.Resource, holder string) {
			cr.mu.Lock()
			defer cr.mu.Unlock()
			cr.woken = append(cr.woken, holder)
		}
		ctx, cancel := context.WithCancel(t.Context())
		holder := fmt.Sprint("holder", i)
		cr.cancel[holder] = cancel
		go func() {
			if term, err := c.Campaign(ctx, "orders", holder); err == nil {
				cr.won <- term
			}
		}()
	}
	return cr
}

// queue waits until n candidates are enrolled.
func (cr *crowd) queue(n int) (queue []elector.Candidate) {
	cr.t.Helper()
	zookeepertest.Eventually(cr.t, fmt.Sprint(n, " candidates are enrolled"), func() bool {
		var err error
		queue, err = cr.watch.Candidates(cr.t.Context(), "orders")
		return err == nil && len(queue) == n
	})
	return queue
}

// settle waits until the woken candidate has read, and a while longer in which others could.
func (cr *crowd) settle() {
	cr.t.Helper()
	zookeepertest.Eventually(cr.t, "somebody is woken and looks", func() bool {
		cr.mu.Lock()
		woken := len(cr.woken)
		cr.mu.Unlock()
		return woken > 0 && cr.relay.Count(zookeepertest.GetChildren2) > 0
	})
	time.Sleep(2 * time.Second)
}

// count returns who was woken since the last call, and how many lists, reads and syncs the crowd
// has made.
func (cr *crowd) count() (woken []string, lists int) {
	lists = cr.relay.Recount(zookeepertest.GetChildren2)
	cr.mu.Lock()
	defer cr.mu.Unlock()
	woken, cr.woken = cr.woken, nil
	return woken, lists
}

func TestADeathInAQueueOf50WakesExactlyOne(t *testing.T) {
	t.Parallel()
	const n = 50
	cr := newCrowd(t, n)
	queue := cr.queue(n)
	leader := <-cr.won
	if leader.Token() != queue[0].Token {
		t.Fatalf("%v leads; the queue begins with %+v", leader.Claim(), queue[0])
	}
	// Every candidate has set the watches on its predecessor and on itself.
	zookeepertest.Eventually(t, "everybody watches", func() bool { return cr.armed() == 2*n-1 })
	cr.count()
	// If each had read all the others, there would be n*(n-1).
	if reads := cr.relay.Recount(zookeepertest.GetData); reads > 10*n {
		t.Errorf("%d candidates have made %d reads to find their places", n, reads)
	}

	cr.cancel[queue[25].Holder]()
	cr.queue(n - 1)
	cr.settle()
	if woken, lists := cr.count(); !slices.Equal(woken, []string{queue[26].Holder}) || lists != 1 {
		t.Errorf("a death in the middle woke %q and made %d lists; want %q and 1", woken, lists,
			queue[26].Holder)
	}

	must.Succeed(t, leader.Resign(t.Context()))
	next := <-cr.won
	cr.settle()
	if woken, lists := cr.count(); !slices.Equal(woken, []string{queue[1].Holder}) || lists != 1 {
		t.Errorf("the leader's end woke %q and made %d lists; want %q and 1", woken, lists,
			queue[1].Holder)
	}
	if next.Token() != queue[1].Token {
		t.Errorf("%v leads; next in the queue was %+v", next.Claim(), queue[1])
	}
}

// armed returns how many watches the server has on candidates of the crowd.
func (cr *crowd) armed() (total int) {
	ours := false
	// Each path is followed by its watchers.
	for line := range strings.Lines(fourLetters(cr.t, cr.relay.Server, "wchp")) {
		switch watcher := strings.HasPrefix(line, "\t"); {
		case !watcher:
			ours = strings.HasPrefix(line, "/crowd/elections/orders/")
		case ours:
			total++
		}
	}
	return total
}

func TestTheCzxidOrdersNotTheSuffix(t *testing.T) {
	t.Parallel()
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	c := openFor(t, "zk://"+ensemble+"/suffix", 50*time.Second)
	if err := electiontest.Win(t, c, "orders", "a").Resign(t.Context()); err != nil {
		// makes the election
		t.Fatal(err)
	}
	admin := zookeepertest.Connect(t, ensemble)
	older := zookeepertest.Craft(t, admin, c.dir("orders"), "crafted", "2147483647", zk.FlagEphemeral)
	won := make(chan *fence.Term, 1)
	go func() {
		term, _ := c.Campaign(t.Context(), "orders", "b")
		won <- term
	}()
	var queue []elector.Candidate
	zookeepertest.Eventually(t, "b waits behind the older one", func() bool {
		queue, _ = c.Candidates(t.Context(), "orders")
		return len(queue) == 2 && queue[1].Holder == "b"
	})
	younger := zookeepertest.Craft(t, admin, c.dir("orders"), "crafted", "-2147483648",
		zk.FlagEphemeral)
	select {
	case term := <-won:
		t.Fatalf("%v leads before an older candidate with a higher suffix", term.Claim())
	default:
	}
	must.Succeed(t, admin.Delete(older, -1))
	select {
	case term := <-won:
		if term.Token() != queue[1].Token {
			t.Errorf("b leads with %v; it was enrolled as %v", term.Token(), queue[1].Token)
		}
	case <-time.After(30 * time.Second):
		t.Errorf("b does not lead before a younger candidate with a lower suffix, %s", younger)
	}
}

// The predecessor and the candidate are deleted in one transaction. So the candidate wakes without
// a predecessor, and with a token that is no longer enrolled.
func TestWakingProvesNothing(t *testing.T) {
	t.Parallel()
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	c := openFor(t, "zk://"+ensemble+"/waking", 20*time.Second)
	leader := electiontest.Win(t, c, "orders", "a")
	won := make(chan *fence.Term, 1)
	go func() {
		term, _ := c.Campaign(t.Context(), "orders", "b")
		won <- term
	}()
	var queue []elector.Candidate
	zookeepertest.Eventually(t, "b waits", func() bool {
		queue, _ = c.Candidates(t.Context(), "orders")
		return len(queue) == 2
	})
	admin := zookeepertest.Connect(t, ensemble)
	names, _, err := admin.Children(c.dir("orders"))
	must.Succeed(t, err)
	var both []any
	for _, name := range names {
		both = append(both, &zk.DeleteRequest{Path: path.Join(c.dir("orders"), name), Version: -1})
	}
	_, err = admin.Multi(both...)
	must.Succeed(t, err)
	ends(t, leader, 30*time.Second, fence.ErrDeposed)
	if term := <-won; term == nil || term.Token() <= queue[1].Token {
		t.Errorf("b leads with %v; its candidacy %v was deleted", term, queue[1].Token)
	}
}

func TestForeignZnodesInAnElectionAreLeftAlone(t *testing.T) {
	t.Parallel()
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	c := openFor(t, "zk://"+ensemble+"/foreign", 50*time.Second)
	if err := electiontest.Win(t, c, "orders", "a").Resign(t.Context()); err != nil {
		// makes the election
		t.Fatal(err)
	}
	admin := zookeepertest.Connect(t, ensemble)
	dir := c.dir("orders")
	for _, name := range []string{"x", "c", "c-", "c--", "c-1", "_c_", "c-short-0000000001",
		leaderName} {
		_, err := admin.Create(path.Join(dir, name), []byte("not JSON"), zk.FlagPersistent,
			zk.WorldACL(zk.PermAll))
		must.Succeed(t, err)
	}
	// A candidate that would never end.
	zookeepertest.Craft(t, admin, dir, "crafted", "0000000000", zk.FlagPersistent)
	term := electiontest.Win(t, c, "orders", "b")
	if err := term.Acknowledge(t.Context()); err != nil {
		t.Errorf("acknowledge over a foreign znode: %v", err)
	}
	queue, err := c.Candidates(t.Context(), "orders")
	want := elector.Candidate{Token: term.Token(), ID: term.Claim().Candidate, Holder: "b",
		Ready: true}
	if err != nil || !slices.Equal(queue, []elector.Candidate{want}) {
		t.Errorf("the queue is %+v, %v; want %+v", queue, err, want)
	}
}
