package zookeeper

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence/documents"
	"github.com/ringfence/ringfence/internal/test/electiontest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestALimitOfTheServerIsNamedAndCostsNoTerm(t *testing.T) {
	t.Parallel()
	const session = 6 * time.Second
	server := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{
		Settings: []string{"maxClientCnxns=3"}, Java: []string{"-Djute.maxbuffer=20000"},
	})
	c := openFor(t, "zk://"+server.Addr()+"/limits", session)
	term := electiontest.Win(t, c, "orders", "a")
	large := documents.Change{Writes: []documents.Write{documents.Create("f/large",
		make([]byte, 30_000))}}
	if _, err := c.Documents().Change(t.Context(), large); err == nil ||
		!strings.Contains(err.Error(), "jute.maxbuffer") {
		t.Errorf("large: %v", err)
	}
	var err error
	for range 4 { // a coordinator has one connection, and one more when it campaigns
		var other *Coordinator
		if other, err = Open(t.Context(), "zk://"+server.Addr()+"/limits",
			Options{SessionTimeout: 4 * time.Second}); err != nil {
			break
		}
		defer other.Close()
	}
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "maxClientCnxns") {
		t.Errorf("connections: %v", err)
	}
	from := time.Now().Add(session)
	electiontest.Eventually(t, "the term goes on", func() bool { return term.Deadline().After(from) })
}
