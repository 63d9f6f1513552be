package pgguard

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
)

// crowded is a guard with a coordinator in front of a server with few connections, where app needs
// a password and other needs none.
func crowded(t *testing.T, connections int, limit func(*guard.Server)) (*guarded, *coordinator) {
	t.Helper()
	pg, database := small(t, connections)
	c := &coordinator{issuer: "zk:one"}
	c.elects("orders", 5)
	return guardBefore(t, pg, database, setup{
		Options: Options{Admission: &marks.Admission{Authority: marks.Elected{Observer: c}}},
		limit:   limit,
	}), c
}

// fillServer opens sessions, and then connections that do not go through the guard until the server
// has no room for one.
func (g *guarded) fillServer(url string, sessions int) (older []*pgx.Conn) {
	g.t.Helper()
	for range sessions {
		older = append(older, g.dialUntilAdmitted(url))
	}
	for {
		c, err := g.dialURL(g.pg.URL("other", g.database))
		if err != nil {
			wantCode(g.t, err, pgmarks.NoConnections)
			return older
		}
		g.t.Cleanup(func() { _ = c.Close(context.Background()) })
	}
}

// admits checks that a session is open, and that the older ones have ended.
func (g *guarded) admits(c *pgx.Conn, err error, older []*pgx.Conn) {
	g.t.Helper()
	must.Succeed(g.t, err)
	g.exec(c, "select 1")
	for _, old := range older {
		if _, err := old.Exec(g.t.Context(), "select 1"); err == nil {
			g.t.Error("an older session is still open")
		}
	}
}

// The older leader's sessions hold every connection that the server has.
func TestAnElectedLeaderGetsInWhereOlderSessionsHoldEveryConnection(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"other", "app:right"} {
		t.Run(who, func(t *testing.T) {
			g, c := crowded(t, 16, nil)
			older := g.fillServer(g.url(who, 5), 3)
			c.elects("orders", 7)
			conn, err := g.dialURL(g.url(who, 7))
			g.admits(conn, err, older)
		})
	}
}

// The guard that the new leader connects to knows nothing of the sessions, which are another
// guard's.
func TestAnElectedLeaderGetsInThroughAGuardThatHasSeenNothing(t *testing.T) {
	t.Parallel()
	g, c := crowded(t, 20, nil)
	other := g.another(
		setup{Options: Options{Admission: &marks.Admission{Authority: marks.Elected{Observer: c}}}},
	)
	must.Succeed(t, other.store.Probe(t.Context()))
	older := g.fillServer(g.url("app:right", 5), 3)
	c.elects("orders", 7)
	conn, err := other.dialURL(other.url("app:right", 7))
	g.admits(conn, err, older)
}

func TestAnElectedLeaderGetsInWhereOlderSessionsHoldTheRolesConnections(t *testing.T) {
	t.Parallel()
	g, c := crowded(t, 40, nil)
	pgtest.Exec(t, g.pg.URL("postgres", g.database), "alter role app connection limit 3")
	var older []*pgx.Conn
	for range 3 {
		older = append(older, g.dialUntilAdmitted(g.url("app:right", 5)))
	}
	_, err := g.dialURL(g.url("app:right", 5))
	wantCode(t, err, pgmarks.NoConnections)
	c.elects("orders", 7)
	conn, err := g.dialURL(g.url("app:right", 7))
	g.admits(conn, err, older)
}

func TestAnElectedLeaderGetsInWhereOlderSessionsHoldTheDatabasesConnections(t *testing.T) {
	t.Parallel()
	g, c := crowded(t, 40, nil)
	pgtest.Exec(t, g.pg.URL("postgres", g.database), "alter database postgres connection limit 10")
	older := g.fillServer(g.url("app:right", 5), 3)
	c.elects("orders", 7)
	conn, err := g.dialURL(g.url("app:right", 7))
	g.admits(conn, err, older)
}

// No session is ended for a token that does not lead.
func TestAClientThatDoesNotLeadMakesNoRoom(t *testing.T) {
	t.Parallel()
	g, _ := crowded(t, 16, nil)
	older := g.fillServer(g.url("other", 5), 3)
	_, err := g.dialURL(g.url("other", 7))
	wantCode(t, err, pgmarks.NoConnections)
	for _, old := range older {
		g.exec(old, "select 1")
	}
	if n := g.markOf("orders"); n != 5 {
		t.Errorf("the mark is %d", n)
	}
}

// Logins that stop at the password hold more connections than the server has.
func TestLoginsThatHoldEveryConnectionMakeRoomForALeader(t *testing.T) {
	t.Parallel()
	g, c := crowded(t, 16, func(s *guard.Server) { s.MaxLogins, s.Grace = 40, 100*time.Millisecond })
	g.exec(g.dialUntilAdmitted(g.url("other", 5)), "select 1")
	packet := startupOf(0, "user", "app", "database", g.database, "options", "-c fence.orders=9")
	for range 60 {
		dialWire(t, g.Addr).send(packet)
	}
	c.elects("orders", 7)
	g.exec(g.dialUntilAdmitted(g.url("other", 7)), "select 1")
}

func TestALeaderThatHoldsEveryLockIsTakenOverFromThroughAGuard(t *testing.T) {
	t.Parallel()
	g, c := crowded(t, 20, nil)
	hog, err := g.dialURL(g.url("other", 5))
	must.Succeed(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = hog.Exec(ctx, "select pg_advisory_lock(k) from generate_series(1, 1000000) k")
	wantCode(t, err, pgmarks.NoMemory)
	c.elects("orders", 7)
	conn, err := g.dialURL(g.url("other", 7))
	g.admits(conn, err, []*pgx.Conn{hog})
}

// A leader is turned away because connections that do not go through the guard use up the server's.
// The guard is not ready then. It is ready while the present leader's sessions use them up, and
// once there is room.
func TestAGuardIsNotReadyWhileTheServerHasNoRoomForALeader(t *testing.T) {
	t.Parallel()
	g, c := crowded(t, 16, nil)
	all := g.fillServer(g.url("other", 5), 1)
	if err := g.protocol.Ready(t.Context()); err != nil {
		t.Errorf("nobody was turned away: %v", err)
	}
	c.elects("orders", 5, 7)
	_, err := g.dialURL(g.url("other", 7))
	wantCode(t, err, pgmarks.NoConnections)
	if err := g.protocol.Ready(t.Context()); err != nil {
		t.Errorf("a client that does not lead was turned away: %v", err)
	}
	_, err = g.dialURL(g.url("other", 5))
	wantCode(t, err, pgmarks.NoConnections)
	if err := g.protocol.Ready(t.Context()); err == nil {
		t.Error("ready, but the leader was turned away")
	}
	g.AwaitMetric("ringfence_connections_ended_total", "server_full", 2)
	_ = all[0].Close(t.Context())
	g.eventually(sessionsWhere+"usename = 'guard_role'",
		func(int) bool { return g.protocol.Ready(t.Context()) == nil })
}
