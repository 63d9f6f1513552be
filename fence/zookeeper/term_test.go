package zookeeper

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
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
	zookeepertest.Eventually(t, "the term is "+want.String(), func() bool {
		return term.State() == want
	})
}

// confirmedAgain waits for a round trip of the term.
func confirmedAgain(t *testing.T, term *fence.Term) {
	t.Helper()
	before := term.Deadline()
	zookeepertest.Eventually(t, "the term is confirmed again", func() bool {
		return term.Deadline().After(before)
	})
}

func TestAnExpirationByTheServerEndsATermBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	r := zookeepertest.NewRelay(t, serverstest.SharedZooKeeper(t).Addr())
	c := openFor(t, "zk://"+r.Addr()+"/word", 50*time.Second)
	term := electiontest.Win(t, c, "orders", "a")
	r.ExpireSessions()
	ends(t, term, 30*time.Second, fence.ErrExpired)
	if left := time.Until(term.Deadline()); left <= 0 {
		t.Errorf("the deadline had passed %v before, so this test proves nothing", -left)
	}
	if next := electiontest.Win(t, c, "orders", "a"); next.Token() <= term.Token() {
		t.Errorf("token %v follows %v", next.Token(), term.Token())
	}
}

func TestDeletingTheOwnZnodeDeposesAtOnce(t *testing.T) {
	t.Parallel()
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	c := openFor(t, "zk://"+ensemble+"/own", time.Minute)
	term := electiontest.Win(t, c, "orders", "a")
	zookeepertest.DeleteCandidate(t, zookeepertest.Connect(t, ensemble),
		"/own/elections/orders", term.Token())
	ends(t, term, 14*time.Second, fence.ErrDeposed) // by its watch; the next read is 15 s away
	if err := term.Acknowledge(t.Context()); !errors.Is(err, fence.ErrDeposed) {
		t.Errorf("a deposed leader's acknowledgement returned %v", err)
	}
}
