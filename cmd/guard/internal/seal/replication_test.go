package seal

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// The manual says that a subscription passes a seal, and that check reports it.
func TestChangesThatASubscriptionAppliesPassASeal(t *testing.T) {
	pg := serverstest.Postgres(t,
		servers.PostgresOptions{Settings: map[string]string{"wal_level": "logical"}})
	r := &realm{t: t, pg: pg, name: "postgres"}
	r.install(pgmarks.Options{})
	r.sql("create table entry (id bigint primary key, token bigint)")
	r.protect(Request{Resource: "orders", Tables: []string{"entry"}})
	source := &realm{t: t, pg: pg, name: serverstest.FreshDatabase(t, pg)}
	source.sql("create table entry (id bigint primary key, token bigint); create publication p for " +
		"table entry")
	// A subscription to the same server does not create its slot by itself.
	source.sql("select pg_create_logical_replication_slot('s', 'pgoutput')")
	r.sql("create subscription s connection '" + pg.URL("postgres", source.name) +
		"' publication p with (create_slot = false, copy_data = false)")
	defer r.sql("drop subscription s")
	r.finds("subscription:s", true)
	source.sql("insert into entry values (1, 5)")
	if !poll.Until(time.Minute, func() bool { return r.count() > 0 }) {
		t.Fatal("the change was not applied")
	}
}
