package pgguard

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestAnAdministratorsTerminationIsForwardedUnchanged(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	old := g.open(5)
	pgtest.Exec(t, g.pg.URL("postgres", g.database),
		fmt.Sprintf("select pg_terminate_backend(%d)", old.PgConn().PID()))
	_, err := old.Exec(t.Context(), "select 1")
	wantCode(t, err, "57P01")
	if !strings.Contains(err.Error(), "administrator command") {
		t.Errorf("not the server's message: %v", err)
	}
}

// mute is a store that does not answer for its marks.
type mute struct{ marks.Store }

func (mute) Marks(ctx context.Context, _ ...fence.Resource) ([]marks.Mark, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestTheServersLastErrorIsForwardedWhenTheStoreCannotSayWhy(t *testing.T) {
	t.Parallel()
	g := fencedBy(t, setup{wrap: func(s marks.Store) marks.Store { return mute{s} }})
	old := g.open(5)
	pgtest.Exec(t, g.pg.URL("postgres", g.database),
		fmt.Sprintf("select pg_terminate_backend(%d)", old.PgConn().PID()))
	_, err := old.Exec(t.Context(), "select 1")
	wantCode(t, err, "57P01")
}

func TestAnOrdinaryFatalErrorIsForwardedUnchanged(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	c := g.open(5)
	g.exec(c, "set idle_in_transaction_session_timeout = 1")
	g.exec(c, "begin")
	g.until(fmt.Sprintf("select count(*) from pg_stat_activity where pid = %d",
		c.PgConn().PID()), 0)
	_, err := c.Exec(t.Context(), "select 1")
	wantCode(t, err, "25P03")
}

// This client lets its buffers and the guard's fill up, so the backend is ended in the middle of a
// message, and the guard and the socket buffers hold part of one too.
func TestAClientThatDoesNotReadNeitherBlocksTheNewLeaderNorGetsAnErrorInsideAMessage(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	w := dialWire(t, g.Addr)
	w.login("user", "app", "database", g.database, "options", "-c fence.orders=5")
	w.query("select repeat('x', 100000) from generate_series(1, 10000)")
	g.until(`select count(*) from pg_stat_activity
	    where usename = 'app' and datname = current_database() and wait_event = 'ClientWrite'`, 1)
	g.exec(g.open(7), "insert into ledger (token) values (7)")
	all, left := messages(w.rest())
	if len(all) < 2 || all[0].kind != 'T' {
		t.Fatalf("%d messages", len(all))
	}
	for i, m := range all[1:] {
		last := i == len(all)-2
		switch {
		case m.kind == 'D' && bytes.Count(m.body, []byte("x")) == 100000 && len(m.body) == 100006:
		case m.kind == 'E' && last && len(left) == 0 && m.error(t).Code == "RF001":
		default:
			t.Fatalf("message %d of %d is %q with %d bytes", i, len(all), m.kind, len(m.body))
		}
	}
	if len(left) > 11 && bytes.Count(left[11:], []byte("x")) != len(left)-11 {
		t.Errorf("a row holds foreign bytes: %.100q", bytes.Trim(left[11:], "x"))
	}
}

func TestASessionUnderTwoResourcesIsEndedWhenEitherIsRaised(t *testing.T) {
	t.Parallel()
	for _, raised := range []string{"orders", "stock"} {
		t.Run(raised, func(t *testing.T) {
			g := fenced(t)
			both, err := g.dialURL(g.withOptions("app", "-c fence.orders=5 -c fence.stock=50"))
			must.Succeed(t, err)
			g.exec(both, "begin")
			g.exec(both, "insert into ledger (token) values (5)")
			_, err = g.dialURL(g.withOptions("app", "-c fence."+raised+"=51"))
			must.Succeed(t, err)
			_, err = both.Exec(t.Context(), "commit")
			wantCode(t, err, "RF001")
			if n := g.count("select count(*) from ledger"); n != 0 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// It changes a role of the shared server, so it runs alone.
func TestASessionKeepsItsTokenWhateverItSets(t *testing.T) {
	g := fenced(t)
	pgtest.Exec(t, g.pg.URL("postgres", g.database),
		"alter role app set fence.orders = '99'; grant guard_role to app")
	t.Cleanup(func() {
		pgtest.Exec(t, g.pg.URL("postgres", g.database),
			"alter role app reset fence.orders; revoke guard_role from app")
	})
	old := g.open(5)
	for _, s := range []string{
		"set fence.orders = 99", "select set_config('fence.orders', '99', false)",
		"reset all", "discard all",
		"set role guard_role", "reset role", "set session authorization default",
		"set application_name = 'ringfence'",
	} {
		g.exec(old, s)
	}
	if n := g.markOf("orders"); n != 5 {
		t.Fatalf("the mark is %d", n)
	}
	g.open(7)
	_, err := old.Exec(t.Context(), "insert into ledger (token) values (5)")
	wantCode(t, err, "RF001")
}

// held starts a statement that waits for an advisory lock until release is called.
func (g *guarded) held(c *pgx.Conn) (release func(), result <-chan error) {
	g.t.Helper()
	holder, err := pgx.Connect(g.t.Context(), g.pg.URL("postgres", g.database))
	must.Succeed(g.t, err)
	release = sync.OnceFunc(func() { _ = holder.Close(context.Background()) })
	g.t.Cleanup(release)
	g.exec(holder, "select pg_advisory_lock(42)")
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(),
			"insert into ledger (token) select 5 from (select pg_advisory_lock_shared(42)) l")
		ended <- err
	}()
	g.until("select count(*) from pg_locks where locktype = 'advisory' and not granted "+
		"and database = (select oid from pg_database where datname = current_database())", 1)
	return release, ended
}

func TestAStatementOfALostClientIsEndedByTheNextLeaderThroughAnotherGuard(t *testing.T) {
	t.Parallel()
	first := fenced(t)
	holder := pgtest.Connect(t, first.pg.URL("postgres", first.database))
	first.exec(holder, "select pg_advisory_lock(42)")
	w := dialWire(t, first.Addr) // pgx would cancel the statement
	w.login("user", "app", "database", first.database, "options", "-c fence.orders=5")
	w.query("insert into ledger (token) select 5 from (select pg_advisory_lock_shared(42)) l")
	first.until("select count(*) from pg_locks where locktype = 'advisory' and not granted "+
		"and database = (select oid from pg_database where datname = current_database())", 1)
	_ = w.Conn.(*net.TCPConn).SetLinger(0) // a reset; the statement runs on
	_ = w.Close()
	const running = "select count(*) from pg_stat_activity " +
		"where datname = current_database() and query like 'insert into ledger%' " +
		"and state = 'active'"
	if first.count(running) != 1 {
		t.Fatal("the statement ended with its client: this test proves nothing")
	}
	first.another(setup{}).open(7)
	if n := first.count(running); n != 0 {
		t.Errorf("%d statements of the old leader still run when the new one is ready", n)
	}
	first.exec(holder, "select pg_advisory_unlock(42)")
	if n := first.count("select count(*) from ledger"); n != 0 {
		t.Errorf("%d rows of a statement that was ended", n)
	}
}

func TestThreeHundredIdleSessionsHaveOneRecordLeftWhenTheNewLeaderIsReady(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		Settings: map[string]string{"max_connections": "440"},
	})
	g := guardBefore(t, pg, prepared(t, pg, "postgres"), setup{Options: Options{
		Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: time.Minute},
	}})
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 30 {
				if _, err := g.dial(5); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := g.count(sessionsWhere + "usename = 'app'"); n != 300 {
		t.Fatalf("%d sessions", n)
	}
	start := time.Now()
	g.open(7)
	t.Logf("300 sessions were kept from writing in %v", time.Since(start))
	if n := g.count("select count(*) from ringfence_private.session"); n != 1 {
		t.Errorf("%d sessions are registered", n)
	}
	g.until(sessionsWhere+"usename = 'app'", 1)
}

// crowdOf opens sessions under a token.
func (g *guarded) crowdOf(n int, token fence.Token) (all []*pgx.Conn) {
	g.t.Helper()
	for range n {
		all = append(all, g.open(token))
	}
	return all
}

// There are too many for the server to be asked at once, so their own guard has its turn first.
func TestManySessionsOfAnotherGuardHaveEndedWhenTheNewLeaderIsReady(t *testing.T) {
	t.Parallel()
	for name, hears := range map[string]bool{
		"a guard that hears of it": true, "a guard that does not": false,
	} {
		t.Run(name, func(t *testing.T) {
			g := fenced(t)
			old := g.crowdOf(20, 5)
			for _, c := range old {
				g.exec(c, "begin")
				g.exec(c, "insert into ledger (token) values (5)")
			}
			g.until(listeners, 1)
			if !hears {
				pgtest.Exec(t, g.pg.URL("postgres", g.database), "select pg_terminate_backend(pid) "+
					"from pg_stat_activity where query = 'listen ringfence' and datname = current_database()")
				g.until(listeners, 0)
			}
			g.another(setup{}).open(7)
			for _, c := range old {
				_, err := c.Exec(t.Context(), "commit")
				wantCode(t, err, "RF001")
			}
			if n := g.count("select count(*) from ledger"); n != 0 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// cancelOf returns the cancel request for a session.
func cancelOf(c *pgx.Conn) []byte {
	pid := c.PgConn().PID()
	return request(wire.CancelRequest, append([]byte{byte(pid >> 24), byte(pid >> 16), byte(pid >> 8),
		byte(pid)}, c.PgConn().SecretKey()...)...)
}

func TestTheCancelKeyOfARevokedSessionDoesNotAffectTheNewLeader(t *testing.T) {
	t.Parallel()
	g := fenced(t)
	old := g.open(5)
	key := cancelOf(old)
	fresh := g.open(7)
	release, result := g.held(fresh)
	w := dialWire(t, g.Addr)
	w.send(key)
	if b := w.rest(); len(b) > 0 {
		t.Errorf("a cancel request was answered with %q", b)
	}
	release()
	if err := <-result; err != nil {
		t.Errorf("the new leader's statement: %v", err)
	}
}
