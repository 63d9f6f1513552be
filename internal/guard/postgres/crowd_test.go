package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// metric is a counter or gauge of the guard, all label values together that have this one.
func (g *guarded) metric(name, label string) (sum float64) {
	g.t.Helper()
	families, err := g.metrics.Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetValue() == label {
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}

// become waits for a metric.
func (g *guarded) become(name, label string, want float64) {
	g.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for g.metric(name, label) != want {
		if time.Now().After(deadline) {
			g.t.Fatalf("%s{%s} is %v and did not become %v", name, label, g.metric(name, label), want)
		}
	}
}

// small is a database of its own with few connections, where app needs a password.
func small(t *testing.T, connections int) (*servers.Postgres, string) {
	t.Helper()
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		Settings: map[string]string{"max_connections": fmt.Sprint(connections), "superuser_reserved_connections": "2"},
		HBA:      "local all all trust\nhost all guard_role,postgres,other 127.0.0.1/32 trust\nhost all app 127.0.0.1/32 scram-sha-256\n",
	})
	database := prepared(t, pg, "postgres")
	sql(t, pg.URL("postgres", database), "alter role app password 'right'; create role other login")
	return pg, database
}

// Far more logins than the server has connections stop when they are asked for the password, and keep standing there.
func TestLoginsThatStopAtThePasswordHoldNeitherTheServersConnectionsNorTheLeader(t *testing.T) {
	pg, database := small(t, 20)
	g := guardBefore(t, pg, database, setup{limit: func(s *guard.Server) { s.MaxLogins, s.Grace = 6, 100*time.Millisecond }})
	packet := startupOf(0, "user", "app", "database", database, "options", "-c fence.orders=9")
	for range 110 {
		dialWire(t, g.addr).send(packet)
	}
	g.exec(g.insists(g.url("app:right", 5)), "insert into ledger (token) values (5)")
	direct, err := pgx.Connect(t.Context(), pg.URL("other", database)) // the others' connections are free
	if err != nil {
		t.Error(err)
	} else {
		_ = direct.Close(t.Context())
	}
	if n := g.markOf("orders"); n != 5 {
		t.Errorf("the mark is %d", n)
	}
}

// insists is a session of a client that connects again when its place was given to another one: the grace is so short here
// that a machine that stands still for a moment looks like a client that does.
func (g *guarded) insists(url string) *pgx.Conn {
	g.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		c, err := g.dialURL(url)
		if err == nil {
			return c
		}
		if code(err) != tooManyConnections || time.Now().After(deadline) {
			g.t.Fatal(err)
		}
	}
}

// A login that was evicted is told so, and is no login any more.
func TestAnEvictedLoginIsTold(t *testing.T) {
	pg, database := small(t, 20)
	g := guardBefore(t, pg, database, setup{limit: func(s *guard.Server) { s.MaxLogins, s.Grace = 1, time.Millisecond }})
	stalled := dialWire(t, g.addr)
	stalled.send(startupOf(0, "user", "app", "database", database, "options", "-c fence.orders=9"))
	stalled.until("R")
	if _, err := g.dialURL(g.url("app:right", 5)); err != nil {
		t.Fatal(err)
	}
	if e := stalled.until("E").error(t); e.Code != tooManyConnections || !strings.Contains(e.Detail, "waiting") {
		t.Errorf("told %+v", e)
	}
	stalled.rest()
	g.become("guard_connections_ended_total", "evicted", 1)
}

func TestHalfOpenConnectionsKeepNobodyOut(t *testing.T) {
	g := fencedBy(t, setup{limit: func(s *guard.Server) { s.MaxUnadmitted, s.Grace = 20, 100*time.Millisecond }})
	for i := range 400 {
		w := dialWire(t, g.addr)
		if i%2 == 0 {
			_, _ = w.Write([]byte{0, 0}) // the guard may have had enough of it
		}
	}
	g.exec(g.insists(g.url("app", 5)), "insert into ledger (token) values (5)")
	if n := g.metric("guard_connections", "unadmitted"); n > 20 {
		t.Errorf("%v connections are not admitted", n)
	}
}

func TestACrowdOfDeposedClientsCostsTheServerNoLogin(t *testing.T) {
	pg := serverstest.SharedPostgres(t)
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	tap, control := tapBefore(t, pg, database)
	g := guardBefore(t, pg, database, setup{control: control, limit: func(s *guard.Server) { s.MaxLogins = 1 }})
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
	if n := g.metric("guard_admissions_total", "stale"); n < 200 {
		t.Errorf("%v refusals are counted", n)
	}
}

// They queue behind a login that stalls while the mark is not known to be raised yet.
func TestDeposedClientsThatWaitForALoginAreRefusedWithoutOne(t *testing.T) {
	pg, database := small(t, 20)
	tap, control := tapBefore(t, pg, database)
	admission := &marks.Admission{Authority: marks.Unverified{}}
	g := guardBefore(t, pg, database, setup{
		control: control, Options: Options{Admission: admission},
		limit: func(s *guard.Server) { s.MaxLogins, s.Grace = 1, time.Hour },
	})
	slow := dialWire(t, g.addr)
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
	g.become("guard_connections", "unadmitted", 5)
	if err := admission.Raise(t.Context(), fence.Claim{Resource: "orders", Token: 7, Issuer: fence.Unverified}); err != nil {
		t.Fatal(err)
	}
	if admission.Ended(t.Context(), marks.Present(fence.Claim{Resource: "orders", Token: 5})) == nil { // the guard has seen it now
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

// A pool of many connects at once, as after a restart: everybody gets in, and nobody is thrown out, however few logins
// there may be at a time.
func TestAWholePoolThatConnectsAtOnceGetsIn(t *testing.T) {
	const clients = 300
	pg := serverstest.Postgres(t, servers.PostgresOptions{Settings: map[string]string{"max_connections": fmt.Sprint(clients + 20)}})
	database := prepared(t, pg, "postgres")
	g := guardBefore(t, pg, database, setup{
		Options: Options{LoginTimeout: 5 * time.Minute},
		limit:   func(s *guard.Server) { s.MaxConnections, s.MaxUnadmitted, s.MaxLogins = clients, clients/2, 4 },
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
	if n := g.metric("guard_connections", "admitted"); n != clients && !t.Failed() {
		t.Errorf("%v are admitted", n)
	}
	for _, label := range []string{"evicted", "too_many", "login_timeout"} {
		if n := g.metric("guard_connections_ended_total", label) + g.metric("guard_connections_total", label); n != 0 {
			t.Errorf("%v: %s", n, label)
		}
	}
	for _, c := range conns {
		if c != nil {
			_ = c.Close(ctx)
		}
	}
}

// Every admitted slot is taken by the older leader's sessions, and every other one by what is not admitted.
func TestANewLeaderGetsInWhenEverySlotIsTaken(t *testing.T) {
	g := fencedBy(t, setup{limit: func(s *guard.Server) {
		s.MaxConnections, s.MaxUnadmitted, s.MaxLogins, s.Grace = 3, 3, 2, 50*time.Millisecond
	}})
	for range 3 {
		g.open(5)
	}
	for range 6 {
		dialWire(t, g.addr)
	}
	g.exec(g.insists(g.url("app", 7)), "insert into ledger (token) values (7)")
}

func TestOneSessionTooManyIsToldSoInTheTimeOfAnAdmission(t *testing.T) {
	g := fencedBy(t, setup{
		Options: Options{Admission: &marks.Admission{Authority: marks.Unverified{}, Timeout: 2 * time.Second}},
		limit:   func(s *guard.Server) { s.MaxConnections = 1 },
	})
	c := g.open(5)
	_, err := g.dial(5)
	wantCode(t, err, tooManyConnections)
	g.become("guard_connections_ended_total", "full", 1)
	g.exec(c, "insert into ledger (token) values (5)")
	g.until("select count(*) from ringfence.session", 1) // the one that was refused is forgotten
}

// looker tells by pg_stat_activity whether a session lives. It is asked when a write to a client is stuck.
type looker struct {
	g     *guarded
	asked chan struct{} // takes the first question
}

func (l looker) Alive(ctx context.Context, s marks.Session) (alive bool, err error) {
	select {
	case l.asked <- struct{}{}:
	default:
	}
	c, err := pgx.Connect(ctx, l.g.pg.URL("postgres", l.g.database))
	if err != nil {
		return false, err
	}
	defer c.Close(context.WithoutCancel(ctx))
	err = c.QueryRow(ctx, `select exists (select from pg_stat_activity where pid = $1 and backend_start = $2)`, s.ID, s.Birth).Scan(&alive)
	return alive, err
}

// watched is a guard that looks after clients that do not read.
func watched(t *testing.T, with setup) (*guarded, *looker) {
	t.Helper()
	l := &looker{asked: make(chan struct{}, 1)}
	with.Options = Options{Sessions: l, Stall: 50 * time.Millisecond}
	l.g = fencedBy(t, with)
	return l.g, l
}

// deaf opens a session that asks for much and reads nothing of it, until the guard is stuck.
func (l *looker) deaf(token int) *wire {
	l.g.t.Helper()
	w := dialWire(l.g.t, l.g.addr)
	w.login("user", "app", "database", l.g.database, "options", fmt.Sprintf("-c fence.orders=%d", token))
	w.query("select repeat('x', 1000) from generate_series(1, 100000)")
	select {
	case <-l.asked:
	case <-time.After(time.Minute):
		l.g.t.Fatal("the guard asks nobody")
	}
	return w
}

func TestARevokedClientThatNeverReadsGivesItsSlotBack(t *testing.T) {
	g, l := watched(t, setup{limit: func(s *guard.Server) { s.MaxConnections = 1 }})
	l.deaf(5)
	g.exec(g.open(7), "insert into ledger (token) values (7)")
	g.become("guard_connections_ended_total", "stuck", 1)
}

const endApp = "select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = 'app' and datname = current_database()"

func TestASessionThatAnOperatorEndsGivesItsSlotBackToo(t *testing.T) {
	g, l := watched(t, setup{})
	l.deaf(5)
	g.count(endApp)
	g.become("guard_connections_ended_total", "stuck", 1)
	g.become("guard_connections", "admitted", 0)
}

func TestALiveClientThatReadsLateGetsEverything(t *testing.T) {
	_, l := watched(t, setup{})
	w := l.deaf(5)
	rows := 0
	for m := w.next(); m.kind != 'Z'; m = w.next() {
		if m.kind == 'D' {
			rows++
		}
	}
	if rows != 100_000 {
		t.Errorf("%d rows", rows)
	}
}

func TestAShutdownDoesNotWaitForAClientThatNeverReads(t *testing.T) {
	g, l := watched(t, setup{drain: time.Hour}) // its session has ended
	l.deaf(5)
	g.count(endApp)
	g.stop()
	g, l = watched(t, setup{drain: 100 * time.Millisecond}) // it lives
	l.deaf(5)
	g.stop()
}
