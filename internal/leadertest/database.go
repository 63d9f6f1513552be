package leadertest

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks/postgres"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// Database is a fresh one with the schema installed, for the guard's role warden and the leaders'
// role keeper.
type Database struct {
	test *testing.T
	pg   *servers.Postgres
	Conn *pgx.Conn // as the administrator
}

var (
	roles      sync.Once
	installing sync.Mutex // what is granted to a role is the whole server's
)

// NewDatabase makes one.
func NewDatabase(t *testing.T) Database {
	t.Helper()
	d := BareDatabase(t)
	Installed(t, d, "warden", "keeper")
	return d
}

// Installed installs the schema.
func Installed(t *testing.T, d Database, guard string, leaders ...string) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	if err := postgres.Install(t.Context(), d.URL("postgres"), guard, leaders...); err != nil {
		t.Fatal(err)
	}
}

// BareDatabase has no schema of ours.
func BareDatabase(t *testing.T) Database {
	t.Helper()
	pg := serverstest.SharedPostgres(t)
	conn, err := pgx.Connect(t.Context(), pg.URL("postgres", serverstest.FreshDatabase(t, pg)))
	if err != nil {
		t.Fatal(err)
	}
	d := Database{test: t, pg: pg, Conn: conn}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	roles.Do(func() { d.SQL("create role warden login; create role keeper login") })
	return d
}

// URL is the database for a role.
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

// Ask reads one text.
func (d Database) Ask(sql string) (answer string) {
	d.test.Helper()
	if err := d.Conn.QueryRow(d.test.Context(), sql).Scan(&answer); err != nil {
		d.test.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// Grant lets the steps use the tables there are.
func (d Database) Grant() {
	d.test.Helper()
	d.SQL("grant all on all tables in schema public to keeper; grant all on all sequences in schema public to keeper")
}

// Hold locks a table against writers, on a connection of its own, until release is called.
func (d Database) Hold(table string) (release func()) {
	d.test.Helper()
	conn, err := pgx.ConnectConfig(d.test.Context(), d.Conn.Config())
	if err != nil {
		d.test.Fatal(err)
	}
	if _, err := conn.Exec(d.test.Context(), "begin; lock table "+table+" in share mode"); err != nil {
		d.test.Fatal(err)
	}
	return func() { _ = conn.Close(context.WithoutCancel(d.test.Context())) }
}

// Blocked waits until a statement waits for a lock.
func (d Database) Blocked(statement string) {
	d.test.Helper()
	Eventually(d.test, statement+" waits", func() bool {
		return d.Ask("select count(*)::text from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%"+statement+"%'") == "1"
	})
}
