package leadertest

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Database is an empty database with the schema installed, for the guard's role warden and the
// leaders' role keeper.
type Database struct {
	test *testing.T
	pg   *servers.Postgres
	Conn *pgx.Conn // as the administrator
}

var (
	roles      sync.Once
	installing sync.Mutex // grants to a role concern the whole server
)

// NewDatabase creates a database and installs the schema.
func NewDatabase(t *testing.T) Database {
	t.Helper()
	d := BareDatabase(t)
	Install(t, d, "warden", "keeper")
	return d
}

// Install installs the schema.
func Install(t *testing.T, d Database, guard string, leaders ...string) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	must.Succeed(t, pgmarks.Install(t.Context(), d.URL("postgres"), guard, leaders...))
}

// BareDatabase creates a database without the schema.
func BareDatabase(t *testing.T) Database {
	t.Helper()
	pg := serverstest.SharedPostgres(t)
	conn, err := pgx.Connect(t.Context(), pg.URL("postgres", serverstest.FreshDatabase(t, pg)))
	must.Succeed(t, err)
	d := Database{test: t, pg: pg, Conn: conn}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	roles.Do(func() { d.SQL("create role warden login; create role keeper login") })
	return d
}

// URL returns the database's URL for a role.
func (d Database) URL(role string) string { return d.pg.URL(role, d.Conn.Config().Database) }

// SQL runs statements as the administrator.
func (d Database) SQL(text string) {
	d.test.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.test.Context()), Patience)
	defer cancel()
	if _, err := d.Conn.PgConn().Exec(ctx, text).ReadAll(); err != nil {
		d.test.Fatalf("%s: %v", text, err)
	}
}

// Query reads one text.
func (d Database) Query(sql string) (answer string) {
	d.test.Helper()
	if err := d.Conn.QueryRow(d.test.Context(), sql).Scan(&answer); err != nil {
		d.test.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// Grant lets the steps use the existing tables.
func (d Database) Grant() {
	d.test.Helper()
	d.SQL("grant all on all tables in schema public to keeper")
	d.SQL("grant all on all sequences in schema public to keeper")
}

// Hold locks a table against writers, on a separate connection, until release is called.
func (d Database) Hold(table string) (release func()) {
	d.test.Helper()
	conn, err := pgx.ConnectConfig(d.test.Context(), d.Conn.Config())
	must.Succeed(d.test, err)
	_, err = conn.Exec(d.test.Context(), "begin; lock table "+table+" in share mode")
	must.Succeed(d.test, err)
	return func() { _ = conn.Close(context.WithoutCancel(d.test.Context())) }
}

// Blocked returns once the statement waits for a lock.
func (d Database) Blocked(statement string) {
	d.test.Helper()
	Eventually(d.test, statement+" waits", func() bool {
		return d.Query(`select count(*)::text from pg_stat_activity where datname = current_database()
			and wait_event_type = 'Lock' and query like '%`+statement+`%'`) == "1"
	})
}
