package pgguard

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// balanced starts a guard behind a load balancer that can direct connections to either of two
// servers. after is the second server's database.
func balanced(t *testing.T) (g *guarded, balancer *tap, after *guarded) {
	t.Helper()
	before := serverstest.SharedPostgres(t)
	database := prepared(t, before, serverstest.FreshDatabase(t, before))
	other := serverstest.Postgres(t, servers.PostgresOptions{})
	pgtest.Exec(t, other.URL("postgres", "postgres"), "create database "+database)
	prepared(t, other, database)
	balancer, control := tapBefore(t, before, database)
	return guardBefore(t, before, database, setup{control: control}), balancer,
		&guarded{t: t, pg: other, database: database}
}

// The guard's own connections stay on the old primary while the load balancer sends the client's
// connection to the new one. Both servers may have a backend with the same pid.
func TestASessionOnAServerWithoutTheMarksIsRefused(t *testing.T) {
	t.Parallel()
	g, balancer, after := balanced(t)
	g.open(5)
	balancer.redirectNext(after.pg.Addr())
	_, err := g.dial(5)
	pg := refusedWith(t, err, "57P03")
	if !strings.Contains(pg.Detail, "another server or database") || pg.Hint == "" {
		t.Errorf("the refusal is %q, %q", pg.Detail, pg.Hint)
	}
	if n := g.count("select count(*) from ringfence_private.session"); n != 1 {
		t.Errorf("%d sessions are recorded where the marks are, want the first one", n)
	}
}

// When the load balancer switches for good, the guard dials its own connections again, and the
// marks on the new server count.
func TestAGuardFollowsALoadBalancer(t *testing.T) {
	t.Parallel()
	g, balancer, after := balanced(t)
	g.open(5)
	balancer.redirect(after.pg.Addr())
	g.open(7)
	for _, where := range []*guarded{g, after} {
		if n := where.count("select count(*) from ringfence_private.session"); n != 1 {
			t.Errorf("%d sessions are recorded at %s, want one", n, where.pg.Addr())
		}
	}
	_, err := g.dial(5)
	refusedWith(t, err, "RF001")
}

// A guard's marks fence one database. The marks would not protect a session of another database,
// whose leaders do not raise them.
func TestASessionOfAnotherDatabaseIsRefusedAndWritesNothing(t *testing.T) {
	t.Parallel()
	shop := fenced(t)
	for name, c := range map[string]struct {
		prepare func(database string)
		detail  string
	}{
		"guarded by another guard": {func(database string) { prepared(t, shop.pg, database) },
			"another server or database"},
		"without the schema": {func(database string) {
			prepared(t, shop.pg, database)
			pgtest.Exec(t, shop.pg.URL("postgres", database),
				"drop schema ringfence, ringfence_private cascade")
		}, "this guard is for database"},
	} {
		t.Run(name, func(t *testing.T) {
			crm := serverstest.FreshDatabase(t, shop.pg)
			c.prepare(crm)
			conn, err := pgx.Connect(t.Context(), "postgres://app@"+shop.Addr+"/"+crm+
				"?sslmode=disable&options=-c%20fence.orders%3D5")
			if err == nil {
				_ = conn.Close(t.Context())
				t.Fatal("admitted")
			}
			if pg := refusedWith(t, err, "57P03"); !strings.Contains(pg.Detail, c.detail) {
				t.Errorf("the refusal is %q", pg.Detail)
			}
		})
	}
	shop.open(5)
}
