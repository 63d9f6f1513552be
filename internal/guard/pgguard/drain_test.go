package pgguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
)

// stopping shuts a guard down in the background and returns once it no longer accepts connections.
func (g *guarded) stopping() (stopped <-chan struct{}) {
	g.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Stop()
	}()
	for {
		c, err := net.Dial("tcp", g.Addr)
		if err != nil {
			return done
		}
		_ = c.Close()
	}
}

func TestAShutdownEndsIdleSessionsAtOnceAndLetsAnOpenTransactionFinish(t *testing.T) {
	t.Parallel()
	g := fencedBy(t, setup{drain: time.Minute})
	idle, busy := dialWire(t, g.Addr), g.open(5)
	idle.login("user", "app", "database", g.database, "options", "-c fence.orders=5")
	g.exec(busy, "begin")
	g.exec(busy, "insert into ledger (token) values (5)")
	stopped := g.stopping()

	if e := idle.next().error(t); e.Code != "57P01" ||
		!strings.Contains(e.Message, "the guard is shutting down") {
		t.Errorf("the idle client got %+v", e)
	}
	g.exec(busy, "insert into ledger (token) values (5)")
	select {
	case <-stopped:
		t.Error("the guard stopped while a transaction was open")
	default:
	}
	g.exec(busy, "commit")
	<-stopped
	_, err := busy.Exec(t.Context(), "select 1")
	wantCode(t, err, "57P01")
	if n := g.count("select count(*) from ledger"); n != 2 {
		t.Errorf("%d rows", n)
	}
}

func TestAShutdownWaitsForARunningStatementBeforeItEndsItsSession(t *testing.T) {
	t.Parallel()
	g := fencedBy(t, setup{drain: time.Minute})
	release, result := g.held(g.open(5))
	stopped := g.stopping()
	release()
	if err := <-result; err != nil {
		t.Errorf("the statement: %v", err)
	}
	<-stopped
	if n := g.count("select count(*) from ledger"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestAnOpenTransactionIsCutWhenTheDrainDeadlinePasses(t *testing.T) {
	t.Parallel()
	g := fencedBy(t, setup{drain: 100 * time.Millisecond})
	busy := g.open(5)
	g.exec(busy, "begin")
	g.exec(busy, "insert into ledger (token) values (5)")
	g.Stop()
	_, err := busy.Exec(t.Context(), "commit")
	wantCode(t, err, "57P01")
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) &&
		!strings.Contains(pg.Detail, "rolled back") {
		t.Errorf("the detail is %q", pg.Detail)
	}
	g.until("select count(*) from pg_stat_activity where usename = 'app' "+
		"and datname = current_database()", 0)
	if n := g.count("select count(*) from ledger"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// The server may have executed it before it was told to end.
func TestAStatementThatRunsAtTheDrainDeadlineIsEndedAndSaidToBeUnknown(t *testing.T) {
	t.Parallel()
	g := fencedBy(t, setup{drain: 100 * time.Millisecond})
	release, result := g.held(g.open(5))
	g.Stop()
	g.until(sessionsWhere+"usename = "+
		"'app'", 0)
	err := <-result
	wantCode(t, err, "08007")
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && !strings.Contains(pg.Detail, "may have "+
		"been") {
		t.Errorf("the detail is %q", pg.Detail)
	}
	release()
	if n := g.count("select count(*) from ledger"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// libpq tries the next host of its list after 57P03 only.
func TestALoginDuringAShutdownIsSentToTheNextHost(t *testing.T) {
	t.Parallel()
	g := fencedBy(t, setup{
		drain: time.Minute, limit: func(s *guard.Server) { s.MaxUnadmitted, s.Grace = 1, time.Hour },
	})
	busy := g.open(5)
	g.exec(busy, "begin")
	early, waiting := dialWire(t, g.Addr), dialWire(t, g.Addr)
	g.AwaitMetric("ringfence_connections", "waiting", 1)
	stopped := g.stopping()
	for name, w := range map[string]*rawClient{"being served": early, "in the queue": waiting} {
		g.claim(w)
		if e := w.until("E").error(t); e.Code != "57P03" ||
			!strings.Contains(e.Message, "shutting down") {
			t.Errorf("%s: the client got %+v", name, e)
		}
	}
	g.exec(busy, "commit")
	<-stopped
}

// Every commit that the guard forwarded must be answered. A client that gets the shutdown error
// instead does not know whether its transaction was committed.
func TestAShutdownUnderLoadLeavesNoCommitUnanswered(t *testing.T) {
	t.Parallel()
	for range 5 {
		g := fencedBy(t, setup{drain: time.Minute})
		answered := 0
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 4 {
			c := g.open(5)
			all.Go(func() {
				var err error
				for n := 0; err == nil; n++ {
					const insert = "insert into ledger (token) values (5)"
					_, err = c.Exec(context.Background(), insert, pgx.QueryExecModeSimpleProtocol)
					if err == nil {
						mu.Lock()
						answered++
						mu.Unlock()
					}
				}
				var pg *pgconn.PgError
				if errors.As(err, &pg) && pg.Code != "57P01" {
					t.Errorf("the last answer is %v", err)
				}
			})
		}
		g.until("select least(count(*), 20) from ledger", 20)
		g.Stop()
		all.Wait()
		if n := g.count("select count(*) from ledger"); n != answered {
			t.Errorf("%d rows are committed, %d were answered", n, answered)
		}
	}
}

func TestARevocationDuringAShutdownStillEndsTheSession(t *testing.T) {
	t.Parallel()
	g := fencedBy(t, setup{drain: time.Minute})
	busy := g.open(5)
	g.exec(busy, "begin")
	g.exec(busy, "insert into ledger (token) values (5)")
	next := g.another(setup{})
	stopped := g.stopping()
	next.open(7)
	<-stopped
	_, err := busy.Exec(t.Context(), "commit")
	wantCode(t, err, "RF001")
	if n := g.count("select count(*) from ledger"); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// The guard begins to shut down between the login and the relay of a session.
func TestASessionThatIsAdmittedDuringAShutdownEndsAtOnce(t *testing.T) {
	t.Parallel()
	gate := gateAt(1)
	g := fencedBy(t, setup{wrap: gate.wrap, drain: time.Minute})
	c := dialWire(t, g.Addr)
	c.send(startupOf(0, "user", "app", "database", g.database, "options", "-c fence.orders=5"))
	gate.await(t)
	stopped := g.stopping()
	close(gate.open)
	c.until("Z")
	if e := c.until("E").error(t); e.Code != wire.AdminShutdown {
		t.Errorf("the client got %+v", e)
	}
	c.rest()
	<-stopped
}

// The guard has to see that the server has closed the connection in order.
func TestASessionBehindTLSHearsThatNothingWasExecuted(t *testing.T) {
	t.Parallel()
	e := encryptedPostgres(t)
	onEachRelay(t, func(t *testing.T, limit func(*guard.Server)) {
		g := guardBefore(t, e.pg, e.database, setup{control: e.control("sslmode=require"), limit: limit})
		c := dialWire(t, g.Addr)
		c.login("user", "app", "database", g.database, "options", "-c fence.orders=5")
		stopped := g.stopping()
		if e := c.until("E").error(t); e.Code != wire.AdminShutdown ||
			e.Detail != wire.ShuttingDown.Detail {
			t.Errorf("the client got %+v", e)
		}
		<-stopped
	})
}

// A guard that admits a newcomer ends all backends that were let go, also those of another guard
// that is about to close their connections. Such a backend leaves unread what that guard sends.
func TestASessionThatAnotherGuardEndsOnceItWasLetGoHearsThatNothingWasExecuted(t *testing.T) {
	t.Parallel()
	e := encryptedPostgres(t)
	for _, control := range []string{"sslmode=disable", "sslmode=require"} {
		onEachRelay(t, func(t *testing.T, limit func(*guard.Server)) {
			r := &released{}
			g := guardBefore(t, e.pg, e.database,
				setup{control: e.control(control), limit: limit, wrap: r.wrap})
			var ended sync.WaitGroup
			r.then = func() {
				pid := g.count("select pid from pg_stat_activity where " +
					"datname = current_database() and usename = 'app'")
				port := g.count("select client_port from pg_stat_activity where " +
					"datname = current_database() and usename = 'app'")
				must.Succeed(t, syscall.Kill(pid, syscall.SIGSTOP))
				pgtest.Exec(t, g.pg.URL("postgres", g.database), "select ringfence.end_leaving()")
				ended.Go(func() {
					awaitUnread(t, port)
					must.Succeed(t, syscall.Kill(pid, syscall.SIGCONT))
				})
			}
			c := dialWire(t, g.Addr)
			c.login("user", "app", "database", g.database, "options", "-c fence.orders=5")
			stopped := g.stopping()
			if e := c.until("E").error(t); e.Code != wire.AdminShutdown ||
				e.Detail != wire.ShuttingDown.Detail {
				t.Errorf("%s: the client got %+v", control, e)
			}
			<-stopped
			ended.Wait()
		})
	}
}

// awaitUnread waits until a socket of this machine has unread bytes from a peer with this port. See
// /proc/net/tcp in proc(5).
func awaitUnread(t *testing.T, peer int) {
	t.Helper()
	unread := regexp.MustCompile(fmt.Sprintf(`:%04X 01 [0-9A-F]{8}:0*[1-9A-F]`, peer))
	for t.Context().Err() == nil {
		table, err := os.ReadFile("/proc/net/tcp")
		must.Succeed(t, err)
		if unread.Match(table) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
