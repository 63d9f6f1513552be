package pgguard

import (
	"fmt"
	"net"
	"testing"

	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// A subscription reads through the guard, until a newer leader is admitted.
func TestASubscriptionReadsUnderItsToken(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t,
		servers.PostgresOptions{Settings: map[string]string{"wal_level": "logical"}})
	g := guardBefore(t, pg, prepared(t, pg, "postgres"), setup{})
	pgtest.Exec(t, pg.URL("postgres", "postgres"), `create role mover login replication;
		grant select on ledger to mover; create publication p for table ledger`)
	pgtest.Exec(t, pg.URL("postgres", "postgres"),
		"select pg_create_logical_replication_slot('s', 'pgoutput')")
	pgtest.Exec(t, pg.URL("postgres", "postgres"), "create database reader")
	host, port, _ := net.SplitHostPort(g.Addr)
	subscriber := pg.URL("postgres", "reader")
	pgtest.Exec(t, subscriber, "create table ledger (n bigint, token bigint, note text)")
	pgtest.Exec(t, subscriber, fmt.Sprintf(`create subscription s connection
		'host=%s port=%s user=mover dbname=postgres options=-cfence.orders=5' publication p
		with (create_slot = false, slot_name = s)`, host, port))
	g.exec(g.open(5), "insert into ledger (token, note) values (5, 'x')")
	g.until("select count(*) from pg_stat_replication where usename = 'mover' and replay_lsn >= "+
		"(select pg_current_wal_flush_lsn())", 1)
	g.open(6)
	g.until("select count(*) from pg_stat_replication where usename = 'mover'", 0)
	pgtest.Exec(t, subscriber, "alter subscription s disable; "+
		"alter subscription s set (slot_name = none); drop subscription s")
}
