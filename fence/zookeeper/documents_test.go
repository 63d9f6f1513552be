package zookeeper

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/fence/documents/documentstest"
	"github.com/ringfence/ringfence/fence/zookeeper/zookeepertest"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/journaltest"
	"github.com/ringfence/ringfence/internal/test/must"
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
	of := func(c documents.Coordinator) *zookeepertest.Relay {
		mu.Lock()
		defer mu.Unlock()
		return relays[c]
	}
	return documentstest.Fixture{
		Open: func(t testing.TB) documents.Coordinator {
			r := zookeepertest.NewRelay(t, ensemble)
			c := openFor(t, "zk://"+r.Addr()+"/documents-contract", 10*time.Second)
			mu.Lock()
			defer mu.Unlock()
			relays[c] = r
			return c
		},
		Alone: func(t testing.TB) (c, operator documents.Coordinator) {
			url := "zk://" + ensemble + zookeepertest.FreshRoot()
			return openFor(t, url, 10*time.Second), openFor(t, url, 10*time.Second)
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

// An issuer that is made again has the version of the first one. Only its watch tells the two
// apart.
func TestAnIssuerThatIsMadeAgainEndsClaims(t *testing.T) {
	t.Parallel()
	server, root := serverstest.SharedZooKeeper(t).Addr(), zookeepertest.FreshRoot()
	c := openFor(t, "zk://"+server+root, 10*time.Second)
	claim := electiontest.Win(t, c, "orders", "a").Claim()
	if _, err := c.Documents().Change(t.Context(),
		documents.Change{While: []fence.Claim{claim}}); err != nil {
		t.Fatal(err)
	}
	operator := zookeepertest.Connect(t, server)
	must.Succeed(t, operator.Delete(root+"/issuer", -1))
	if _, err := c.Issuer(t.Context()); err != nil { // makes another one, as any client would
		t.Fatal(err)
	}
	_, err := c.Documents().Change(t.Context(), documents.Change{
		While: []fence.Claim{claim}, Writes: []documents.Write{documents.Create("f/bad", nil)},
	})
	if !errors.Is(err, fence.ErrOtherIssuer) {
		t.Errorf("a change under the first issuer: %v", err)
	}
}
