package zookeeper

import (
	"errors"
	"os"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/fence/fencetest"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/jobs/jobstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

func TestZooKeeperKeepsTheContract(t *testing.T) { fencetest.Run(t, harness(t)) }

func TestJobsKeepTheirContract(t *testing.T) { jobstest.Run(t, jobstest.On(harness(t))) }

func TestTheContractFindsFlawsOnZooKeeper(t *testing.T) { fencetest.RunFlaws(t, harness(t)) }

// harness connects the contract to the shared server.
func harness(t *testing.T) fencetest.Fixture {
	t.Helper()
	const timeout = 10 * time.Second // long enough for a busy machine
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	admin := zookeepertest.Connect(t, ensemble)
	var mu sync.Mutex
	relays := map[elector.Coordinator]*zookeepertest.Relay{}
	of := func(c elector.Coordinator) *zookeepertest.Relay {
		mu.Lock()
		defer mu.Unlock()
		return relays[c]
	}
	return fencetest.Fixture{
		Open: func(t testing.TB) elector.Coordinator {
			r := zookeepertest.NewRelay(t, ensemble)
			c := openFor(t, "zk://"+r.Addr()+"/contract", timeout)
			mu.Lock()
			defer mu.Unlock()
			relays[c] = r
			return c
		},
		SessionTimeout: timeout,
		Cut:            func(_ testing.TB, c elector.Coordinator) { of(c).Hold() },
		Heal:           func(_ testing.TB, c elector.Coordinator) { of(c).Pass() },
		Drop:           func(_ testing.TB, c elector.Coordinator) { of(c).Drop() },
		Expire:         func(_ testing.TB, c elector.Coordinator) { of(c).ExpireSessions() },
		LoseReply:      func(_ testing.TB, c elector.Coordinator) { of(c).LoseNextEnrolment() },
		Delete: func(t testing.TB, r fence.Resource, token fence.Token) {
			zookeepertest.DeleteCandidate(t, admin, "/contract/elections/"+string(r), token)
		},
		Sessions: func(t testing.TB, rs ...fence.Resource) int {
			return sessionsOf(t, admin, rs)
		},
		Alone: func(t testing.TB) (c, operator elector.Coordinator) {
			url := "zk://" + ensemble + zookeepertest.FreshRoot()
			return openFor(t, url, timeout), openFor(t, url, timeout)
		},
	}
}

// openFor opens a coordinator with a session timeout and closes it with the test. It tries again if
// a busy ensemble does not answer within a short timeout.
func openFor(t testing.TB, url string, timeout time.Duration) (c *Coordinator) {
	t.Helper()
	zookeepertest.Eventually(t, "the coordinator is open", func() bool {
		var err error
		if c, err = Open(t.Context(), url, Options{SessionTimeout: timeout}); err != nil &&
			!errors.Is(err, ErrUnreachable) {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// sessionsOf counts the sessions that own the candidates of these elections.
func sessionsOf(t testing.TB, admin *zk.Conn, rs []fence.Resource) int {
	t.Helper()
	found := map[int64]bool{}
	for _, r := range rs {
		dir := "/contract/elections/" + string(r)
		names, _, err := admin.Children(dir)
		must.Succeed(t, err)
		for _, name := range names {
			if !isCandidate(name) {
				continue
			}
			if exists, stat, err := admin.Exists(path.Join(dir, name)); err == nil && exists {
				found[stat.EphemeralOwner] = true
			}
		}
	}
	return len(found)
}
