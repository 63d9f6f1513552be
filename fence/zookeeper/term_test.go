package zookeeper

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// ends waits for the loss of a term and checks its cause.
func ends(t *testing.T, term *fence.Term, limit time.Duration, cause error) {
	t.Helper()
	select {
	case <-term.Context().Done():
		if got := context.Cause(term.Context()); !errors.Is(got, cause) {
			t.Errorf("the term was lost with %v; want %v", got, cause)
		}
	case <-time.After(limit):
		t.Fatalf("the term is %v after %v", term.State(), limit)
	}
}

// reaches waits for a state.
func reaches(t *testing.T, term *fence.Term, want fence.State) {
	t.Helper()
	eventually(t, "the term is "+want.String(), func() bool { return term.State() == want })
}

// confirmedAgain waits for a round trip of the term.
func confirmedAgain(t *testing.T, term *fence.Term) {
	t.Helper()
	before := term.Deadline()
	eventually(t, "the term is confirmed again", func() bool { return term.Deadline().After(before) })
}

func TestTheServersWordEndsATermBeforeItsDeadline(t *testing.T) {
	r := newRelay(t, serverstest.SharedZooKeeper(t).Addr())
	c := openFor(t, "zk://"+r.addr()+"/word", 50*time.Second)
	term := win(t, c, "orders", "a")
	r.expireSessions()
	ends(t, term, 10*time.Second, fence.ErrExpired)
	if left := time.Until(term.Deadline()); left <= 0 {
		t.Errorf("the deadline had passed %v before: nothing is shown", -left)
	}
	if next := win(t, c, "orders", "a"); next.Token() <= term.Token() {
		t.Errorf("token %v follows %v", next.Token(), term.Token())
	}
}

func TestDeletingTheOwnZnodeDeposesAtOnce(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	c := openFor(t, "zk://"+ensemble+"/own", 50*time.Second)
	term := win(t, c, "orders", "a")
	deleteCandidate(t, plainConn(t, ensemble), "/own/elections/orders", term.Token())
	ends(t, term, 5*time.Second, fence.ErrDeposed) // by its watch: the next look is 12 s away
	if err := term.Acknowledge(t.Context()); !errors.Is(err, fence.ErrDeposed) {
		t.Errorf("a deposed leader's acknowledgement returned %v", err)
	}
}

func TestAPausedEnsembleExpiresTheTermByTheLocalClock(t *testing.T) {
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	c := openFor(t, "zk://"+z.Addr(), 2*time.Second)
	term := win(t, c, "orders", "a")
	if err := z.Pause(); err != nil {
		t.Fatal(err)
	}
	reaches(t, term, fence.Suspended)
	ends(t, term, 10*time.Second, fence.ErrExpired)
	if late := time.Since(term.Deadline()); late > time.Second {
		t.Errorf("the term was lost %v after its deadline", late)
	}
	if err := z.Resume(); err != nil {
		t.Fatal(err)
	}
	if next := win(t, c, "orders", "a"); next.Token() <= term.Token() {
		t.Errorf("token %v follows %v", next.Token(), term.Token())
	}
}

func TestATermOutlivesARestartOfTheEnsemble(t *testing.T) {
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	c := openFor(t, "zk://"+z.Addr(), 20*time.Second)
	term := win(t, c, "orders", "a")
	if err := term.Acknowledge(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan *fence.Term, 1)
	go func() {
		term, _ := c.Campaign(t.Context(), "orders", "b")
		waiting <- term
	}()
	var before []fence.Candidate
	eventually(t, "b waits", func() bool {
		before, _ = c.Candidates(t.Context(), "orders")
		return len(before) == 2
	})
	if err := z.Kill(); err != nil {
		t.Fatal(err)
	}
	reaches(t, term, fence.Suspended)
	if err := z.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	reaches(t, term, fence.Active)
	confirmedAgain(t, term)
	after, err := c.Candidates(t.Context(), "orders")
	if err != nil || len(after) != 2 || after[0] != before[0] || after[1] != before[1] || after[0].Token != term.Token() {
		t.Errorf("before the restart the queue was %+v, after it %+v, %v", before, after, err)
	}
	deleteCandidate(t, plainConn(t, z.Addr()), c.electionPath("orders"), term.Token())
	ends(t, term, 5*time.Second, fence.ErrDeposed) // the watch works after the restart
	if next := <-waiting; next == nil || next.Token() != before[1].Token {
		t.Errorf("b leads with %v; it was enrolled as %v", next, before[1].Token)
	}
}

func TestATermOutlivesTheDeathOfTheEnsemblesLeader(t *testing.T) {
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 3})
	c := openFor(t, "zk://"+z.Addr(), 50*time.Second)
	term := win(t, c, "orders", "a")
	killed := false
	for _, n := range z.Nodes {
		if strings.Contains(fourLetters(t, n.Addr(), "srvr"), "Mode: leader") {
			killed = true
			if err := n.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !killed {
		t.Fatal("no node leads the ensemble")
	}
	start := time.Now()
	eventually(t, "the term is confirmed by the new ensemble leader", func() bool {
		return term.State() == fence.Active && term.Deadline().After(start.Add(50*time.Second))
	})
	if err := term.Acknowledge(t.Context()); err != nil {
		t.Errorf("acknowledge: %v", err)
	}
	queue, err := c.Candidates(t.Context(), "orders")
	if err != nil || len(queue) != 1 || queue[0].Token != term.Token() || !queue[0].Ready {
		t.Errorf("the queue is %+v, %v", queue, err)
	}
	if err := term.Resign(t.Context()); err != nil {
		t.Error(err)
	}
	if next := win(t, c, "orders", "a"); next.Token() <= term.Token() {
		t.Errorf("token %v follows %v", next.Token(), term.Token())
	}
}

func TestAWipedEnsembleIsAnotherIssuer(t *testing.T) {
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	c := openFor(t, "zk://"+z.Addr(), 2*time.Second)
	for range 20 { // so that the new ensemble's count is behind
		if err := win(t, c, "orders", "a").Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	term := win(t, c, "orders", "a")
	if err := z.Wipe(t.Context()); err != nil {
		t.Fatal(err)
	}
	ends(t, term, 10*time.Second, fence.ErrExpired)
	issuer, err := c.Issuer(t.Context())
	if err != nil || issuer == term.Claim().Issuer {
		t.Errorf("after the wipe the issuer is %q, %v; before %q", issuer, err, term.Claim().Issuer)
	}
	next := win(t, c, "orders", "a")
	if next.Claim().Issuer != issuer {
		t.Errorf("the new term's issuer is %q; want %q", next.Claim().Issuer, issuer)
	}
	if next.Token() >= term.Token() {
		t.Errorf("token %v does not start again below %v: nothing is shown", next.Token(), term.Token())
	}
}
