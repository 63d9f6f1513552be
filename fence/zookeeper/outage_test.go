package zookeeper

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestATermOutlastsAnOutageOfAThirdOfTheSessionTimeout(t *testing.T) {
	t.Parallel()
	server := serverstest.SharedZooKeeper(t)
	relay := serverstest.NewRelay(t, server.Addr())
	c := openFor(t, "zk://"+relay.Addr()+serverstest.Folder(t), 4*time.Second)
	electiontest.Outlasts(t, c, 4*time.Second, relay, server.Addr(), 1300*time.Millisecond)
}
