package zookeeper

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/electiontest"
	"github.com/ringfence/ringfence/internal/ensemble/ensembletest"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func TestAnElectionWithoutCandidatesIsForgotten(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	admin, root := ensembletest.Connect(t, ensemble), ensembletest.FreshRoot()
	open := func() fence.Coordinator { return openFor(t, "zk://"+ensemble+root, time.Minute) }
	electiontest.Forgets(t, open, "orders", func() bool {
		there, _, err := admin.Exists(root + "/elections/orders")
		return there || err != nil
	})
}

func TestSeveralElectionsAreForgotten(t *testing.T) {
	ensemble := serverstest.SharedZooKeeper(t).Addr()
	admin, root := ensembletest.Connect(t, ensemble), ensembletest.FreshRoot()
	c := openFor(t, "zk://"+ensemble+root, time.Minute)
	electiontest.ForgetsSeveral(t, c, func(r fence.Resource) bool {
		there, _, err := admin.Exists(root + "/elections/" + string(r))
		return there || err != nil
	})
}
