package pglisten

import (
	"os"
	"testing"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

func TestAListenerThatCatchesUpHoldsNothingBack(t *testing.T) {
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	conn := pgtest.Connect(t, pg.URL("postgres", "postgres"))
	_, err := conn.Exec(t.Context(), "listen news")
	must.Succeed(t, err)
	unread := serverstest.SendNotices(t, pg)
	if _, err := conn.Exec(t.Context(), "select 1"); err != nil || !unread() {
		t.Fatalf("a query alone has cleared the queue: %v", err)
	}
	if err := CatchUp(t.Context(), conn); err != nil || unread() {
		t.Errorf("the queue is not empty: %v", err)
	}
	var before, after int64
	written := func(to *int64) {
		if err := conn.QueryRow(t.Context(),
			"select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").Scan(to); err != nil {
			t.Fatal(err)
		}
	}
	written(&before)
	must.Succeed(t, CatchUp(t.Context(), conn))
	if written(&after); after != before {
		t.Error("it writes although the queue is empty")
	}
	_ = conn.Close(t.Context())
	if err := CatchUp(t.Context(), conn); err == nil {
		t.Error("a lost connection is no error")
	}
}
