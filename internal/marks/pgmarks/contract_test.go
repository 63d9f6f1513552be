package pgmarks

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/marks/markstest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/poll"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestPostgresKeepsTheContract(t *testing.T) {
	t.Parallel()
	// not a shared server: the contract restarts it
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	markstest.Run(t, func(t testing.TB) markstest.Fixture { return open(t, pg) })
}

func open(t testing.TB, pg *servers.Postgres) markstest.Fixture {
	d := database{pg, serverstest.FreshDatabase(t, pg)}
	d.roles(t)
	d.sql(t, `create table written (n bigserial, value text);
	    grant all on written, written_n_seq to app`)
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole))
	s := d.open(t, Options{})
	return markstest.Fixture{
		Store: s, Admin: s,
		Connect: func(t testing.TB) markstest.Conn { return connect(t, d, s) },
		Written: func(t testing.TB) []string {
			return d.list(t, "select value from written order by n")
		},
		Audit:   d.audit,
		Restart: d.promote,
	}
}

// promote restarts the server on another timeline, as a failover does.
func (d database) promote(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	must.Succeed(t, d.pg.Stop())
	data, err := filepath.Glob(filepath.Join(d.pg.Dir(), "*", "PG_VERSION"))
	if err != nil || len(data) != 1 {
		t.Fatalf("no data directory below %s: %v %v", d.pg.Dir(), data, err)
	}
	dir := filepath.Dir(data[0])
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "standby.signal"), nil, 0o644))
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Fatal(err)
	}
	must.Succeed(t, os.Chmod(filepath.Join(dir, "standby.signal"), 0o666))
	must.Succeed(t, d.pg.Start(ctx))
	d.sql(t, "select pg_promote(true, 60)")
}

// list returns the rows of a query.
func (d database) list(t testing.TB, query string, args ...any) []string {
	t.Helper()
	return pgtest.Column[string](t, d.url("postgres"), query, args...)
}

// audit returns the adoptions of a resource, oldest first.
func (d database) audit(t testing.TB, r fence.Resource) []markstest.Adoption {
	t.Helper()
	c := d.connect(t, "postgres")
	defer c.Close(context.Background())
	rows, err := c.Query(t.Context(), `select
	    by_holder, coalesce(old_token, 0), new_token, coalesce(old_issuer, ''), new_issuer
	    from ringfence_private.adoption where resource = $1 order by adopted_at`, r)
	must.Succeed(t, err)
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (a markstest.Adoption, err error) {
		return a, r.Scan(&a.By, &a.Before, &a.After, &a.From, &a.To)
	})
	must.Succeed(t, err)
	return all
}

// client is a session of an application role.
type client struct {
	t    testing.TB
	d    database
	conn *pgx.Conn
	sess marks.SessionID
}

func connect(t testing.TB, d database, s *Store) markstest.Conn {
	t.Helper()
	c := d.connect(t, "app")
	sess, err := identify(t.Context(), c)
	must.Succeed(t, err)
	return &client{t, d, c, sess}
}

func (c *client) Session() marks.SessionID { return c.sess }

func (c *client) Write(ctx context.Context, value string) error {
	_, err := c.conn.Exec(ctx, "insert into written (value) values ($1)", value)
	return err
}

func (c *client) Leave(ctx context.Context, value string) error {
	if _, err := c.conn.Exec(ctx, "begin"); err != nil {
		return err
	}
	return c.Write(ctx, value)
}

// Close waits until the backend has ended: the socket closes first.
func (c *client) Close() {
	_ = c.conn.Close(context.Background())
	const here = "select 'here' from pg_stat_activity where pid = $1 " +
		"and backend_start = $2::text::timestamptz"
	if !poll.Until(30*time.Second, func() bool {
		return len(c.d.list(c.t, here, c.sess.ID, c.sess.Birth)) == 0
	}) {
		c.t.Fatal("the backend has not ended")
	}
}
