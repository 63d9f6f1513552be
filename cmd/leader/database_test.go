package main

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks/postgres"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// database is a fresh one with the schema installed, for the guard's role warden and the leaders' role keeper.
type database struct {
	test *testing.T
	pg   *servers.Postgres
	db   *pgx.Conn // as the administrator
}

var (
	roles      sync.Once
	installing sync.Mutex // what is granted to a role is the whole server's
)

func newDatabase(t *testing.T) database {
	t.Helper()
	d := bareDatabase(t)
	installed(t, d, "warden", "keeper")
	return d
}

func installed(t *testing.T, d database, guard string, leaders ...string) {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	if err := postgres.Install(t.Context(), d.url("postgres"), guard, leaders...); err != nil {
		t.Fatal(err)
	}
}

// bareDatabase has no schema of ours.
func bareDatabase(t *testing.T) database {
	t.Helper()
	pg := serverstest.SharedPostgres(t)
	conn, err := pgx.Connect(t.Context(), pg.URL("postgres", serverstest.FreshDatabase(t, pg)))
	if err != nil {
		t.Fatal(err)
	}
	d := database{test: t, pg: pg, db: conn}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	roles.Do(func() { d.sql("create role warden login; create role keeper login") })
	return d
}

func (d database) url(role string) string { return d.pg.URL(role, d.db.Config().Database) }

func (d database) sql(text string) {
	d.test.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.test.Context()), patience)
	defer cancel()
	if _, err := d.db.PgConn().Exec(ctx, text).ReadAll(); err != nil {
		d.test.Fatalf("%s: %v", text, err)
	}
}

// ask reads one text.
func (d database) ask(sql string) (answer string) {
	d.test.Helper()
	if err := d.db.QueryRow(d.test.Context(), sql).Scan(&answer); err != nil {
		d.test.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// grant lets the steps use the tables there are.
func (d database) grant() {
	d.test.Helper()
	d.sql("grant all on all tables in schema public to keeper; grant all on all sequences in schema public to keeper")
}

// hold locks a table against writers, on a connection of its own, until release is called.
func (d database) hold(table string) (release func()) {
	d.test.Helper()
	conn, err := pgx.ConnectConfig(d.test.Context(), d.db.Config())
	if err != nil {
		d.test.Fatal(err)
	}
	if _, err := conn.Exec(d.test.Context(), "begin; lock table "+table+" in share mode"); err != nil {
		d.test.Fatal(err)
	}
	return func() { _ = conn.Close(context.WithoutCancel(d.test.Context())) }
}

// blocked waits until a statement waits for a lock.
func (d database) blocked(statement string) {
	d.test.Helper()
	eventually(d.test, statement+" waits", func() bool {
		return d.ask("select count(*)::text from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%"+statement+"%'") == "1"
	})
}
