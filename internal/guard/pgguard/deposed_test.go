package pgguard

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// The server was restarted, so the mark is unconfirmed and no guard remembers it: only the database
// and the coordinator can say that the pool is deposed. Its clients come back at once, all the
// time.
func TestADeposedPoolThatReconnectsInALoopCostsFewLoginsAndKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	const clients, logins = 200, 4
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	database := prepared(t, pg, "postgres")
	co := &coordinator{issuer: "one"}
	co.elects("orders", 7)
	elected := func() *marks.Admission {
		return &marks.Admission{Authority: &marks.Elected{Observer: co}, Recheck: time.Hour}
	}
	before := guardBefore(t, pg, database, setup{Options: Options{Admission: elected()}})
	before.exec(before.open(7), "insert into ledger (token) values (7)")
	must.Succeed(t, pg.Kill())
	must.Succeed(t, pg.Start(t.Context()))
	tap, control := tapBefore(t, pg, database)
	g := guardBefore(t, pg, database, setup{
		control: control, Options: Options{Admission: elected()},
		limit: func(s *guard.Server) { s.MaxLogins = logins },
	})
	ctx, stop := context.WithCancel(t.Context())
	var pool sync.WaitGroup
	defer pool.Wait()
	defer stop()
	for range clients {
		pool.Go(func() {
			for ctx.Err() == nil {
				_, err := g.dial(5)
				wantCode(t, err, "RF001")
			}
		})
	}
	if !poll.Until(time.Minute, func() bool {
		return g.Metric("ringfence_refusals_total", "stale") >= 5*clients
	}) {
		t.Fatal("the pool was not refused so often")
	}
	if n := len(tap.sentBy("app")); n > logins {
		t.Errorf("the pool has cost the server %d logins, want %d at most", n, logins)
	}
	g.exec(g.open(7), "insert into ledger (token) values (7)")
	stop()
	pool.Wait()
	if n := len(tap.sentBy("app")); n > logins+1 {
		t.Errorf("%d logins reached the server, with the leader's", n)
	}
}
