package pgguard

import (
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
)

// onEachRelay runs a test of a guard that relays in loops, and of one that does so in goroutines.
func onEachRelay(t *testing.T, test func(t *testing.T, limit func(*guard.Server))) {
	t.Run("loops", func(t *testing.T) { test(t, nil) })
	t.Run("goroutines", func(t *testing.T) { test(t, func(s *guard.Server) { s.Loops = nil }) })
}

func TestASessionThatNobodyUsesEnds(t *testing.T) {
	t.Parallel()
	onEachRelay(t, func(t *testing.T, limit func(*guard.Server)) {
		g := fencedBy(t, setup{Options: Options{IdleTimeout: 200 * time.Millisecond}, limit: limit})
		inTransaction, failed := g.open(5), g.open(5)
		g.exec(inTransaction, "begin")
		g.exec(inTransaction, "insert into ledger (token) values (5)")
		g.exec(failed, "begin")
		if _, err := failed.Exec(t.Context(), "select 1/0"); err == nil {
			t.Fatal("no error")
		}
		asleep := dialWire(t, g.Addr)
		asleep.login("user", "app", "database", g.database, "options", "-c fence.orders=5")
		asleep.query("select pg_sleep(1.5)")
		for range 3 { // one after the other, so the sessions above are idle for longer
			idle := dialWire(t, g.Addr)
			idle.login("user", "app", "database", g.database, "options", "-c fence.orders=5")
			if e := idle.next().error(t); e.Code != wire.IdleSessionTimeout || e.Severity != "FATAL" {
				t.Errorf("the idle client got %+v", e)
			}
			idle.rest()
		}
		asleep.until("Z")
		g.exec(inTransaction, "commit")
		g.exec(failed, "rollback")
		if n := g.count("select count(*) from ledger"); n != 1 {
			t.Errorf("%d rows", n)
		}
		g.AwaitMetric("ringfence_connections", "admitted", 0) // now all of them are idle
		g.AwaitMetric("ringfence_connections_ended_total", "idle_session", 6)
		g.until("select count(*) from ringfence_private.session", 0)
	})
}

// The client reads what the server has sent long ago.
func TestASlowReaderIsNotIdle(t *testing.T) {
	t.Parallel()
	onEachRelay(t, func(t *testing.T, limit func(*guard.Server)) {
		g := fencedBy(t, setup{Options: Options{IdleTimeout: 100 * time.Millisecond}, limit: limit})
		slow := dialWire(t, g.Addr)
		slow.login("user", "app", "database", g.database, "options", "-c fence.orders=5")
		slow.query("select repeat('x', 1000) from generate_series(1, 100000)")
		for range 3 {
			idle := dialWire(t, g.Addr)
			idle.login("user", "app", "database", g.database, "options", "-c fence.orders=5")
			idle.until("E")
		}
		rows := 0
		for m := slow.next(); m.kind != 'Z'; m = slow.next() {
			if m.kind == 'D' {
				rows++
			}
		}
		if rows != 100_000 {
			t.Errorf("%d rows", rows)
		}
	})
}

func TestASessionIsNotEndedUnlessTheSettingSaysSo(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	idle := g.open(5)
	watched := g.another(setup{Options: Options{IdleTimeout: 50 * time.Millisecond}})
	for range 3 {
		w := dialWire(t, watched.Addr)
		w.login("user", "app", "database", g.database, "options", "-c fence.orders=5")
		w.until("E")
	}
	g.exec(idle, "select 1")
}
