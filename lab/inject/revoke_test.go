package inject

import (
	"context"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
	"github.com/ringfence/ringfence/lab/scenario"
	"github.com/ringfence/ringfence/lab/system"
)

func TestASessionOfZooKeeperIsClosedFromAnotherConnection(t *testing.T) {
	// the session timeout may have to pass, and a busy machine be slow besides
	ctx := within(t, 3*patience)
	z := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	at := "zk://" + z.Addr() + "/lab"
	co, err := system.OpenCoordinator(ctx, at, coordinators.Options{SessionTimeout: 20 * time.Second})
	must.Succeed(t, err)
	defer co.Close()
	term, err := co.Campaign(ctx, scenario.Resource, "leader")
	must.Succeed(t, err)
	if _, err := closeSession(ctx, at, term.Token()); err != nil {
		t.Error(err)
	}
	select {
	case <-term.Context().Done():
	case <-ctx.Done():
		t.Error("the leader still believes in its term:", context.Cause(ctx))
	}
	if _, err := closeSession(ctx, at, term.Token()); err == nil {
		t.Error("a session was closed twice")
	}
}
