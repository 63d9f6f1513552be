package zookeeper

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestAPausedEnsembleExpiresTheTermByTheLocalClock(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	const timeout = 8 * time.Second
	c := openFor(t, "zk://"+z.Addr(), timeout)
	term := electiontest.Win(t, c, "orders", "a")
	must.Succeed(t, z.Pause())
	reaches(t, term, fence.Suspended) // for half the timeout
	ends(t, term, 30*time.Second, fence.ErrExpired)
	if late := time.Since(term.Deadline()); late > timeout/2 {
		t.Errorf("the term was lost %v after its deadline", late)
	}
	must.Succeed(t, z.Resume())
	if next := electiontest.Win(t, c, "orders", "a"); next.Token() <= term.Token() {
		t.Errorf("token %v follows %v", next.Token(), term.Token())
	}
}

func TestATermOutlivesARestartOfTheEnsemble(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	c := openFor(t, "zk://"+z.Addr(), time.Minute) // a restart may take a while
	term := electiontest.Win(t, c, "orders", "a")
	must.Succeed(t, term.Acknowledge(t.Context()))
	waiting := make(chan *fence.Term, 1)
	go func() {
		term, _ := c.Campaign(t.Context(), "orders", "b")
		waiting <- term
	}()
	var before []elector.Candidate
	zookeepertest.Eventually(t, "b waits", func() bool {
		before, _ = c.Candidates(t.Context(), "orders")
		return len(before) == 2
	})
	must.Succeed(t, z.Kill())
	reaches(t, term, fence.Suspended)
	must.Succeed(t, z.Start(t.Context()))
	reaches(t, term, fence.Active)
	confirmedAgain(t, term)
	after, err := c.Candidates(t.Context(), "orders")
	if err != nil || len(after) != 2 || after[0] != before[0] || after[1] != before[1] ||
		after[0].Token != term.Token() {
		t.Errorf("before the restart the queue was %+v, after it %+v, %v", before, after, err)
	}
	zookeepertest.DeleteCandidate(t, zookeepertest.Connect(t, z.Addr()), c.dir("orders"), term.Token())
	// The watch works after the restart; without it the next read would be 15 s later.
	ends(t, term, 10*time.Second, fence.ErrDeposed)
	if next := <-waiting; next == nil || next.Token() != before[1].Token {
		t.Errorf("b leads with %v; it was enrolled as %v", next, before[1].Token)
	}
}

func TestATermOutlivesTheDeathOfTheEnsemblesLeader(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 3})
	const timeout = time.Minute
	c := openFor(t, "zk://"+z.Addr(), timeout)
	term := electiontest.Win(t, c, "orders", "a")
	must.Succeed(t, inMode(t, z, "leader").Kill())
	start := time.Now()
	zookeepertest.Within(t, timeout, "the term is confirmed by the new ensemble leader", func() bool {
		return term.State() == fence.Active && term.Deadline().After(start.Add(timeout))
	})
	if err := term.Acknowledge(t.Context()); err != nil {
		t.Errorf("acknowledge: %v", err)
	}
	queue, err := c.Candidates(t.Context(), "orders")
	if err != nil || len(queue) != 1 || queue[0].Token != term.Token() || !queue[0].Ready {
		t.Errorf("the queue is %+v, %v", queue, err)
	}
	must.Report(t, term.Resign(t.Context()))
	if next := electiontest.Win(t, c, "orders", "a"); next.Token() <= term.Token() {
		t.Errorf("token %v follows %v", next.Token(), term.Token())
	}
}

// inMode returns a node in this mode, leader or follower.
func inMode(t *testing.T, z *servers.ZooKeeper, mode string) (n *servers.ZooKeeperNode) {
	t.Helper()
	zookeepertest.Eventually(t, "a node is in mode "+mode, func() bool {
		i := slices.IndexFunc(z.Nodes, func(n *servers.ZooKeeperNode) bool {
			return strings.Contains(fourLetters(t, n.Addr(), "srvr"), "Mode: "+mode)
		})
		if i >= 0 {
			n = z.Nodes[i]
		}
		return n != nil
	})
	return n
}

// For two seconds here, such a server still answers plain reads from memory.
func TestAServerWithoutItsEnsembleConfirmsNothing(t *testing.T) {
	t.Parallel()
	const timeout = 4 * time.Second
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 3})
	alone := inMode(t, z, "follower")
	c := openFor(t, "zk://"+alone.Addr(), timeout)
	term := electiontest.Win(t, c, "orders", "a")
	for _, n := range z.Nodes {
		if n != alone {
			must.Succeed(t, n.Pause())
			t.Cleanup(func() { n.Resume() })
		}
	}
	paused := time.Now()
	ends(t, term, 30*time.Second, fence.ErrExpired)
	if d := term.Deadline(); d.After(paused.Add(timeout)) {
		t.Errorf("the term was confirmed by a round trip begun %v after the ensemble was gone",
			d.Sub(paused.Add(timeout)))
	}
}

func TestAWipedEnsembleIsAnotherIssuer(t *testing.T) {
	t.Parallel()
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	// No timeout passes: the new ensemble says at once that it does not know the session.
	c := openFor(t, "zk://"+z.Addr(), 20*time.Second)
	for range 20 { // so that the new ensemble's counter is behind
		must.Succeed(t, electiontest.Win(t, c, "orders", "a").Resign(t.Context()))
	}
	term := electiontest.Win(t, c, "orders", "a")
	must.Succeed(t, z.Wipe(t.Context()))
	ends(t, term, 30*time.Second, fence.ErrExpired)
	issuer, err := c.Issuer(t.Context())
	if err != nil || issuer == term.Claim().Issuer {
		t.Errorf("after the wipe the issuer is %q, %v; before %q", issuer, err, term.Claim().Issuer)
	}
	next := electiontest.Win(t, c, "orders", "a")
	if next.Claim().Issuer != issuer {
		t.Errorf("the new term's issuer is %q; want %q", next.Claim().Issuer, issuer)
	}
	if next.Token() >= term.Token() {
		t.Errorf("token %v is not below %v, so this test proves nothing", next.Token(), term.Token())
	}
}

// Terms before and after the renewal have different issuers.
func TestARenewedIssuerIsAnotherOne(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	c := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	old := electiontest.Win(t, c, "orders", "a")
	won := make(chan *fence.Term, 2)
	for i := range 2 { // candidates from before the renewal
		go func() {
			term, _ := c.Campaign(t.Context(), "orders", "b")
			won <- term
		}()
		zookeepertest.Eventually(t, "it waits", func() bool {
			queue, err := c.Candidates(t.Context(), "orders")
			return err == nil && len(queue) == 2+i
		})
	}
	now, err := c.RenewIssuer(t.Context())
	if err != nil || now == old.Claim().Issuer {
		t.Fatalf("issuer %q became %q, %v", old.Claim().Issuer, now, err)
	}
	other := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	if got, err := other.Issuer(t.Context()); got != now || err != nil {
		t.Errorf("the ensemble says %q, %v; renewed to %q", got, err, now)
	}
	must.Succeed(t, old.Resign(t.Context()))
	for range 2 {
		next := <-won
		if next == nil {
			t.Fatal("a campaign has failed")
		}
		if next.Claim().Issuer != now {
			t.Errorf("the issuer of %v is %q", next.Claim(), next.Claim().Issuer)
		}
		must.Succeed(t, next.Resign(t.Context()))
	}
}

func TestAForeignZnodeIsNotRenewed(t *testing.T) {
	t.Parallel()
	ensemble, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	c := openFor(t, "zk://"+ensemble+root, 50*time.Second)
	admin := zookeepertest.Connect(t, ensemble)
	_, err := admin.Set(root+"/issuer", []byte("another program's"), -1)
	must.Succeed(t, err)
	if got, err := c.RenewIssuer(t.Context()); err == nil {
		t.Errorf("renewed to %q", got)
	}
	if data, _, err := admin.Get(root + "/issuer"); string(data) != "another program's" || err != nil {
		t.Errorf("the znode holds %q, %v", data, err)
	}
}
