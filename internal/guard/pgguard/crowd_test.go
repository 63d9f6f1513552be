package pgguard

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/guard/pgguard/wire"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// small starts a server with few connections, where app needs a password, and returns its database.
func small(t *testing.T, connections int) (*servers.Postgres, string) {
	t.Helper()
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		Settings: map[string]string{
			"max_connections": fmt.Sprint(connections), "superuser_reserved_connections": "2",
		},
		HBA: "local all all trust\nhost all guard_role,postgres,other 127.0.0.1/32 trust\n" +
			"host all app 127.0.0.1/32 scram-sha-256\n",
	})
	database := prepared(t, pg, "postgres")
	pgtest.Exec(t, pg.URL("postgres", database),
		"alter role app password 'right'; create role other login")
	return pg, database
}

// Far more logins than the server has connections stop at the password request and send nothing
// more.
func TestLoginsThatStopAtThePasswordNeitherUseUpConnectionsNorDelayTheLeader(t *testing.T) {
	t.Parallel()
	pg, database := small(t, 20)
	g := guardBefore(t, pg, database, setup{
		limit: func(s *guard.Server) { s.MaxLogins, s.Grace = 6, 100*time.Millisecond },
	})
	packet := startupOf(0, "user", "app", "database", database, "options", "-c fence.orders=9")
	for range 110 {
		dialWire(t, g.Addr).send(packet)
	}
	g.exec(g.dialUntilAdmitted(g.url("app:right", 5)), "insert into ledger (token) values (5)")
	// the server has connections left
	direct, err := pgx.Connect(t.Context(), pg.URL("other", database))
	if err != nil {
		t.Error(err)
	} else {
		_ = direct.Close(t.Context())
	}
	if n := g.markOf("orders"); n != 5 {
		t.Errorf("the mark is %d", n)
	}
}

// dialUntilAdmitted opens a session, and connects again when the guard evicts it: the grace is so
// short in these tests that a slow machine looks like a silent client.
func (g *guarded) dialUntilAdmitted(url string) *pgx.Conn {
	g.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		c, err := g.dialURL(url)
		if err == nil {
			return c
		}
		if code(err) != wire.TooManyConnections || time.Now().After(deadline) {
			g.t.Fatal(err)
		}
	}
}

// An evicted login gets an error and releases its login slot.
func TestAnEvictedLoginIsToldWhy(t *testing.T) {
	t.Parallel()
	pg, database := small(t, 20)
	g := guardBefore(t, pg, database, setup{
		limit: func(s *guard.Server) { s.MaxLogins, s.Grace = 1, time.Millisecond },
	})
	stalled := dialWire(t, g.Addr)
	stalled.send(startupOf(0, "user", "app", "database", database, "options", "-c fence.orders=9"))
	stalled.until("R")
	if _, err := g.dialURL(g.url("app:right", 5)); err != nil {
		t.Fatal(err)
	}
	if e := stalled.until("E").error(t); e.Code != wire.TooManyConnections ||
		!strings.Contains(e.Detail, "waiting") {
		t.Errorf("the evicted client got %+v", e)
	}
	stalled.rest()
	g.AwaitMetric("ringfence_connections_ended_total", "evicted", 1)
}

func TestConnectionsThatStallBeforeTheLoginKeepNobodyOut(t *testing.T) {
	t.Parallel()
	g := fencedBy(t, setup{
		limit: func(s *guard.Server) { s.MaxUnadmitted, s.Grace = 20, 100*time.Millisecond },
	})
	for i := range 400 {
		w := dialWire(t, g.Addr)
		if i%2 == 0 {
			_, _ = w.Write([]byte{0, 0}) // the guard may have closed it already
		}
	}
	g.exec(g.dialUntilAdmitted(g.url("app", 5)), "insert into ledger (token) values (5)")
	if n := g.Metric("ringfence_connections", "unadmitted"); n > 20 {
		t.Errorf("%v connections are not admitted, want at most 20", n)
	}
}

func TestManyDeposedClientsCostTheServerNoLogin(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	tap, control := tapBefore(t, pg, database)
	g := guardBefore(t, pg, database, setup{
		control: control, limit: func(s *guard.Server) { s.MaxLogins = 1 },
	})
	g.open(7)
	before := len(tap.sentBy("app"))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				_, err := g.dial(5)
				wantCode(t, err, "RF001")
			}
		})
	}
	all.Wait()
	if n := len(tap.sentBy("app")) - before; n != 0 {
		t.Errorf("%d logins reached the server", n)
	}
	if n := g.Metric("ringfence_refusals_total", "stale"); n < 200 {
		t.Errorf("%v refusals are counted, want 200 or more", n)
	}
}

// They queue behind a stalled login before the guard knows that the mark is raised.
func TestDeposedClientsThatWaitForALoginSlotAreRefusedWithoutALogin(t *testing.T) {
	t.Parallel()
	pg, database := small(t, 20)
	tap, control := tapBefore(t, pg, database)
	admission := &marks.Admission{Authority: marks.Unverified{}}
	g := guardBefore(t, pg, database, setup{
		control: control, Options: Options{Admission: admission},
		limit: func(s *guard.Server) { s.MaxLogins, s.Grace = 1, time.Hour },
	})
	slow := dialWire(t, g.Addr)
	slow.send(startupOf(0, "user", "app", "database", database, "options", "-c fence.orders=5"))
	slow.until("R")
	var waiting []<-chan dialed
	for range 5 {
		result := make(chan dialed, 1)
		go func() {
			c, err := g.dialURL(g.url("other", 5))
			result <- dialed{c, err}
		}()
		waiting = append(waiting, result)
	}
	g.AwaitMetric("ringfence_connections", "unadmitted", 5)
	if err := admission.Raise(t.Context(),
		fence.Claim{Resource: "orders", Token: 7, Issuer: elector.Unverified}); err != nil {
		t.Fatal(err)
	}
	// now the guard knows the mark
	if admission.Ended(t.Context(), marks.Present(fence.Claim{Resource: "orders", Token: 5})) == nil {
		t.Fatal("the mark is not raised")
	}
	_ = slow.Close()
	for _, result := range waiting {
		wantCode(t, (<-result).err, "RF001")
	}
	if n := len(tap.sentBy("other")); n != 0 {
		t.Errorf("%d logins reached the server", n)
	}
}

// A large pool connects at once, as after a restart. Every client gets in and none is evicted,
// however few login slots there are.
func TestAWholePoolThatConnectsAtOnceGetsIn(t *testing.T) {
	t.Parallel()
	const clients = 300
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		Settings: map[string]string{"max_connections": fmt.Sprint(clients + 20)},
	})
	database := prepared(t, pg, "postgres")
	g := guardBefore(t, pg, database, setup{
		Options: Options{LoginTimeout: 5 * time.Minute},
		limit: func(s *guard.Server) {
			s.MaxConnections, s.MaxUnadmitted, s.MaxLogins = clients, clients/2, 4
		},
	})
	var all sync.WaitGroup
	conns := make([]*pgx.Conn, clients)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	for i := range clients {
		all.Go(func() {
			c, err := pgx.Connect(ctx, g.url("app", 5))
			if err != nil {
				t.Error(err)
				return
			}
			conns[i] = c
		})
	}
	all.Wait()
	if n := g.Metric("ringfence_connections", "admitted"); n != clients && !t.Failed() {
		t.Errorf("%v sessions are admitted, want %d", n, clients)
	}
	for _, label := range []string{"evicted", "too_many", "login_timeout"} {
		if n := g.Metric("ringfence_connections_ended_total", label); n != 0 {
			t.Errorf("%v connections ended as %s", n, label)
		}
	}
	for _, c := range conns {
		if c != nil {
			_ = c.Close(ctx)
		}
	}
}

// The older leader's sessions hold every admitted slot, and silent connections hold all unadmitted
// ones.
func TestANewLeaderGetsInWhenEverySlotIsTaken(t *testing.T) {
	t.Parallel()
	g := fencedBy(t, setup{limit: func(s *guard.Server) {
		s.MaxConnections, s.MaxUnadmitted, s.MaxLogins, s.Grace = 3, 3, 2, 50*time.Millisecond
	}})
	for range 3 {
		g.open(5)
	}
	for range 6 {
		dialWire(t, g.Addr)
	}
	g.exec(g.dialUntilAdmitted(g.url("app", 7)), "insert into ledger (token) values (7)")
}

func TestOneSessionTooManyIsRefusedWithinTheTimeOfAnAdmission(t *testing.T) {
	t.Parallel()
	g := fencedBy(t, setup{
		Options: Options{
			Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: 2 * time.Second},
		},
		limit: func(s *guard.Server) { s.MaxConnections = 1 },
	})
	c := g.open(5)
	_, err := g.dial(5)
	wantCode(t, err, wire.TooManyConnections)
	g.AwaitMetric("ringfence_connections_ended_total", "full", 1)
	g.exec(c, "insert into ledger (token) values (5)")
	g.until("select count(*) from ringfence_private.session", 1) // the refused session has no record
}

// stalling is a guard that soon notices clients that do not read.
type stalling struct {
	*guarded
	liveness *guardtest.Liveness
}

func newStalling(t *testing.T, with setup) stalling {
	t.Helper()
	var g *guarded
	liveness := guardtest.NewLiveness(func(
		ctx context.Context, s marks.SessionID,
	) (alive bool, err error) {
		c, err := pgx.Connect(ctx, g.pg.URL("postgres", g.database))
		if err != nil {
			return false, err
		}
		defer c.Close(context.WithoutCancel(ctx))
		err = c.QueryRow(ctx, `select exists (select from pg_stat_activity
		    where pid = $1 and backend_start = $2)`, s.ID, s.Birth).Scan(&alive)
		return alive, err
	})
	with.Options = Options{Sessions: liveness, Stall: 50 * time.Millisecond}
	g = fencedBy(t, with)
	return stalling{g, liveness}
}

// fillAndStop opens a session whose client requests many rows and reads none. It returns when the
// guard can write no more to it.
func (g stalling) fillAndStop(token int) *rawClient {
	g.t.Helper()
	w := dialWire(g.t, g.Addr)
	w.login("user", "app", "database", g.database, "options",
		fmt.Sprintf("-c fence.orders=%d", token))
	w.query("select repeat('x', 1000) from generate_series(1, 100000)")
	g.liveness.Await(g.t)
	return w
}

func TestARevokedClientThatNeverReadsReleasesItsSlot(t *testing.T) {
	t.Parallel()
	g := newStalling(t, setup{limit: func(s *guard.Server) { s.MaxConnections = 1 }})
	g.fillAndStop(5)
	g.exec(g.open(7), "insert into ledger (token) values (7)")
	g.AwaitMetric("ringfence_connections_ended_total", "stuck", 1)
}

// endApp ends the sessions of app, as an operator might.
const endApp = "select count(pg_terminate_backend(pid)) from pg_stat_activity " +
	"where usename = 'app' and datname = current_database()"

func TestASessionThatAnOperatorEndsReleasesItsSlot(t *testing.T) {
	t.Parallel()
	g := newStalling(t, setup{})
	g.fillAndStop(5)
	g.count(endApp)
	g.AwaitMetric("ringfence_connections_ended_total", "stuck", 1)
	g.AwaitMetric("ringfence_connections", "admitted", 0)
}

func TestALiveClientThatReadsLateGetsEverything(t *testing.T) {
	t.Parallel()
	g := newStalling(t, setup{})
	w := g.fillAndStop(5)
	rows := 0
	for m := w.next(); m.kind != 'Z'; m = w.next() {
		if m.kind == 'D' {
			rows++
		}
	}
	if rows != 100_000 {
		t.Errorf("%d rows, want 100000", rows)
	}
}

func TestAShutdownDoesNotWaitForAClientThatNeverReads(t *testing.T) {
	t.Parallel()
	ended := newStalling(t, setup{drain: time.Hour})
	ended.fillAndStop(5)
	ended.count(endApp)
	ended.Stop()
	alive := newStalling(t, setup{drain: 100 * time.Millisecond})
	alive.fillAndStop(5)
	alive.Stop()
}
