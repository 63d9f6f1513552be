package checkpoint

import (
	"net"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// The benchmark patches the SQL of the product, which changes.
func TestTheFenceCanBeRemovedFromTheSchemaAsItIsInstalled(t *testing.T) {
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	conn := pgtest.Connect(t, pg.URL("postgres", "postgres"))
	run := func(sql string) error {
		_, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
		return err
	}
	must.Succeed(t, run("create role guard login; create role app login"))
	url := pg.URL("postgres", "postgres")
	must.Succeed(t, pgmarks.Install(t.Context(), url, "guard", "app"))
	publish := func() error {
		for _, version := range []string{"1", "2", "3"} {
			const call = "begin; set local ringfence.bench = 'attached 5 unverified'; " +
				"select ringfence.publish('bench', 5, 'unverified', 'task', $1, '{}'); commit"
			if err := run(strings.Replace(call, "$1", version, 1)); err != nil {
				return err
			}
		}
		return nil
	}
	if publish() == nil {
		t.Error("published without a mark before the fence was removed, so this test proves nothing")
	}
	must.Succeed(t, run("rollback"))
	must.Succeed(t, removeFence(t.Context(), url))
	must.Succeed(t, publish())
}

func TestARoundTripCountsOnceForSendingAndWaiting(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	n := &trips{}
	c := &counted{Conn: client, trips: n}
	defer c.Close()
	go func() {
		buffer := make([]byte, 8)
		for range 2 {
			_, _ = server.Read(buffer)
			_, _ = server.Read(buffer)
			_, _ = server.Write([]byte("x"))
		}
	}()
	for range 2 {
		_, _ = c.Write([]byte("a"))
		_, _ = c.Write([]byte("b"))
		_, _ = c.Read(make([]byte, 1))
	}
	if got := n.n.Load(); got != 2 {
		t.Errorf("counted %d round trips, want 2", got)
	}
}
