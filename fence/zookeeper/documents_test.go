package zookeeper

import (
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/documents"
	"github.com/ringfence/ringfence/documents/documentstest"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/journaltest"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestZooKeeperKeepsTheContractOfDocuments(t *testing.T) {
	documentstest.Run(t, documentsFixture(t))
}

func TestTheContractOfDocumentsFindsFlawsOnZooKeeper(t *testing.T) {
	documentstest.RunFlaws(t, documentsFixture(t))
}

func TestJournalsKeepTheirContract(t *testing.T) { journaltest.Run(t, documentsFixture(t)) }

func documentsFixture(t *testing.T) documentstest.Fixture {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	var mu sync.Mutex
	relays := map[documents.Coordinator]*zookeepertest.Relay{}
	of := func(c documents.Coordinator) *zookeepertest.Relay { mu.Lock(); defer mu.Unlock(); return relays[c] }
	return documentstest.Fixture{
		Open: func(t testing.TB) documents.Coordinator {
			r := zookeepertest.NewRelay(t, ensemble)
			c := openFor(t, "zk://"+r.Addr()+"/documents-contract", 10*time.Second)
			mu.Lock()
			defer mu.Unlock()
			relays[c] = r
			return c
		},
		Cut:  func(_ testing.TB, c documents.Coordinator) { of(c).Hold() },
		Heal: func(_ testing.TB, c documents.Coordinator) { of(c).Pass() },
		LoseReply: func(_ testing.TB, c documents.Coordinator) {
			r := of(c)
			r.Set(func() { r.LoseWrite = true })
		},
		Hold: func(t testing.TB, c documents.Coordinator) (held, release func()) {
			r := of(c)
			r.Set(func() { r.StopMulti = true })
			return func() { zookeepertest.Eventually(t, "a multi on its way", r.HoldsRequest) }, r.Pass
		},
	}
}
