package pgmarks

import (
	"slices"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Both databases have the schema, and one publishes all of its tables to the other.
func TestASubscriptionToAllTablesBringsNoMarks(t *testing.T) {
	t.Parallel()
	for _, copied := range []string{"true", "false"} {
		t.Run("copy_data "+copied, func(t *testing.T) { subscribes(t, copied) })
	}
}

func subscribes(t *testing.T, copied string) {
	pg := serverstest.Postgres(t,
		servers.PostgresOptions{Settings: map[string]string{"wal_level": "logical"}})
	led := func(d database, token fence.Token) *realm {
		t.Helper()
		d.sql(t, "create table entry (id bigint primary key)")
		if err := Install(t.Context(), d.url("postgres"), guardRole, "app"); err != nil {
			t.Fatal(err)
		}
		r := &realm{database: d, s: d.open(t, Options{})}
		r.lead(t, claimed(token))
		return r
	}
	here := database{pg, "postgres"}
	here.roles(t)
	to := led(here, 5)
	from := led(database{pg, serverstest.FreshDatabase(t, pg)}, 9)
	from.sql(t, "create publication p for all tables")
	from.sql(t, "select pg_create_logical_replication_slot('s', 'pgoutput')")
	to.sql(t, "create subscription s connection '"+from.url("postgres")+"' publication p with "+
		"(create_slot = false, copy_data = "+copied+")")
	t.Cleanup(func() { // one that fails would not let the slot be dropped
		to.sql(t, "alter subscription s disable")
		to.sql(t, "alter subscription s set (slot_name = none)")
		to.sql(t, "drop subscription s")
	})

	await := func(what, query string) {
		t.Helper()
		for deadline := time.Now().Add(soon); to.list(t, query)[0] == "0"; {
			if time.Now().After(deadline) {
				t.Fatal("waited in vain: " + what)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	arrives := func(id string) {
		t.Helper()
		from.sql(t, "insert into entry values ("+id+")")
		await("row "+id, "select count(*)::text from entry where id = "+id)
	}
	arrives("1")
	from.lead(t, claimed(10))
	execute(t, to.connect(t, "app"), "select * from ringfence.take('stock', 'here', 1)")
	execute(t, from.connect(t, "app"), "select * from ringfence.take('stock', 'elsewhere', 1)")
	arrives("2")
	got := to.list(t,
		"select resource || ' ' || holder || ' ' || confirmed from ringfence.marks(null)")
	if !slices.Equal(got, []string{"orders host true", "stock here true"}) || to.list(t, "select "+
		"token::text from ringfence.marks('{orders}')")[0] != "5" {
		t.Errorf("the marks are %q", got)
	}
	await("every table is in step", "select (not exists (select from pg_subscription_rel where "+
		"srsubstate <> 'r'))::int::text")
}
