package etcd

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestATermOutlastsAnOutageOfLessThanHalfASessionTimeout(t *testing.T) {
	t.Parallel()
	server := serverstest.Etcd(t, servers.EtcdOptions{})
	relay := serverstest.NewRelay(t, server.Addr())
	c := openWith(t, "etcd://"+relay.Addr(), 3*time.Second, nil)
	electiontest.Outlasts(t, c, 3*time.Second, relay, server.Addr(), 1300*time.Millisecond)
}
