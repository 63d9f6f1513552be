package pgmarks

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

const guardRole = "guard_role"

// database is one database of a server.
type database struct {
	pg   *servers.Postgres
	name string
}

// bare returns a fresh database with the roles, but without the schema.
func bare(t *testing.T) database {
	t.Helper()
	pg := serverstest.SharedPostgres(t)
	d := database{pg, serverstest.FreshDatabase(t, pg)}
	d.roles(t)
	return d
}

func (d database) roles(t testing.TB) {
	t.Helper()
	for _, role := range []string{guardRole, "app"} {
		pgtest.Role(t, d.url("postgres"), role, "login")
	}
	d.sql(t, "grant create on schema public to public")
}

// installed returns a fresh database with the schema installed for an ordinary role, as an operator
// does it.
func installed(t *testing.T) database {
	t.Helper()
	d := bare(t)
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole))
	return d
}

func (d database) url(user string) string { return d.pg.URL(user, d.name) }

func (d database) connect(t testing.TB, user string) *pgx.Conn {
	t.Helper()
	return pgtest.Connect(t, d.url(user))
}

func (d database) sql(t testing.TB, text string) {
	t.Helper()
	pgtest.Exec(t, d.url("postgres"), text)
}

func (d database) open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(d.url(guardRole), o)
	must.Succeed(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestInstallTwiceKeepsTheMarks(t *testing.T) {
	t.Parallel()
	d := installed(t)
	s := d.open(t, Options{})
	c := fence.Claim{Resource: "orders", Token: 1<<62 + 1, Issuer: "zk:a", Holder: "a"}
	_, err := raiseTo(t.Context(), s, c)
	must.Succeed(t, err)
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole))
	marks, err := s.Marks(t.Context())
	if err != nil || len(marks) != 1 || marks[0].Token != c.Token || !marks[0].Confirmed {
		t.Fatalf("marks after a second install: %+v, %v", marks, err)
	}
}

func TestTheGuardsRoleNeedsNoSuperuserAndOwnsNothing(t *testing.T) {
	t.Parallel()
	d := installed(t)
	must.Succeed(t, d.open(t, Options{}).Probe(t.Context()))
	for _, user := range []string{guardRole, "app"} {
		c := d.connect(t, user)
		for _, forbidden := range []string{
			"update ringfence_private.mark set token = 1", "delete from ringfence_private.session",
			"truncate ringfence_private.session", "drop schema ringfence, ringfence_private cascade",
		} {
			if _, err := c.Exec(t.Context(), forbidden); err == nil {
				t.Errorf("%s may run: %s", user, forbidden)
			}
		}
	}
	app := d.connect(t, "app")
	if _, err := app.Exec(t.Context(),
		"select ringfence.raise('orders', 9, 'x', 'x', '', (select basis "+
			"from ringfence.look('orders')))"); err == nil {
		t.Error("an application role may raise a mark")
	}
}

// It changes a role of the shared server, so it runs alone.
func TestProbeSaysWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(t *testing.T) database
		refusal error
		says    string
	}{
		"no schema": {bare, fence.ErrNotInstalled, "guard install"},
		"another version": {func(t *testing.T) database {
			d := installed(t)
			d.sql(t, "update ringfence_private.installation set version = 99")
			return d
		}, fence.ErrNotInstalled, "older than the schema"},
		"no execute": {func(t *testing.T) database {
			d := installed(t)
			d.sql(t, "revoke execute on all functions in schema ringfence from "+guardRole)
			return d
		}, nil, "guard install again"},
		"no right to see other roles": {func(t *testing.T) database {
			d := installed(t)
			d.sql(t, "revoke pg_read_all_stats from "+guardRole)
			t.Cleanup(func() { d.sql(t, "grant pg_read_all_stats to "+guardRole) })
			return d
		}, nil, "GRANT pg_read_all_stats"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.prepare(t).open(t, Options{}).Probe(t.Context())
			if err == nil || (test.refusal != nil && !errors.Is(err, test.refusal)) ||
				!strings.Contains(err.Error(), test.says) {
				t.Fatalf("got %v, want an error that contains %q", err, test.says)
			}
		})
	}
}

func TestAServerWithPreparedTransactionsIsRefusedUnlessTheOperatorAllowsIt(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		Settings: map[string]string{"max_prepared_transactions": "5"},
	})
	d := database{pg, "postgres"}
	d.sql(t, "create role "+guardRole+" login")
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole))
	if err := d.open(t, Options{}).Probe(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "max_prepared_transactions is 5") {
		t.Fatalf("got %v", err)
	}
	must.Succeed(t, d.open(t, Options{AllowPrepared: true}).Probe(t.Context()))
}

func TestAPoolerBetweenGuardAndPostgresIsRefused(t *testing.T) {
	t.Parallel()
	d := installed(t)
	bouncer := serverstest.PgBouncer(t, d.pg, servers.PgBouncerOptions{})
	s, err := Open(bouncer.URL(guardRole, d.name), Options{})
	must.Succeed(t, err)
	t.Cleanup(s.Close)
	if err := s.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "pooler") {
		t.Fatalf("got %v", err)
	}
}

func TestThePrintedInstallationRunsInPsql(t *testing.T) {
	t.Parallel()
	d := bare(t)
	text := Roles{Guard: guardRole}.SQL()
	cmd := exec.CommandContext(t.Context(), "psql", "-v", "ON_ERROR_STOP=1", "-q",
		d.url("postgres"))
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must.Succeed(t, d.open(t, Options{}).Probe(t.Context()))
}

func TestInstallForARoleThatDoesNotExistSaysHowToMakeIt(t *testing.T) {
	t.Parallel()
	d := bare(t)
	err := Install(t.Context(), d.url("postgres"), "nobody_here")
	if err == nil || !strings.Contains(err.Error(), `CREATE ROLE "nobody_here"`) {
		t.Fatalf("got %v", err)
	}
}

func TestAnOlderSchemaIsUpgradedInPlaceAndANewerOneIsLeftAlone(t *testing.T) {
	t.Parallel()
	d := installed(t)
	s := d.open(t, Options{})
	if _, err := raiseTo(t.Context(), s,
		fence.Claim{Resource: "orders", Token: 7, Issuer: "zk:a", Holder: "a"}); err != nil {
		t.Fatal(err)
	}
	d.sql(t,
		`update ringfence_private.installation set version = 0;
		drop function ringfence.sweep(); drop table ringfence_private.adoption`)
	must.Succeed(t, Install(t.Context(), d.url("postgres"), guardRole))
	fresh := d.open(t, Options{})
	must.Succeed(t, fresh.Probe(t.Context()))
	if marks, err := fresh.Marks(t.Context()); err != nil || len(marks) != 1 ||
		marks[0].Token != 7 {
		t.Errorf("marks after the upgrade: %+v, %v", marks, err)
	}
	d.sql(t, `update ringfence_private.installation set version = 99`)
	if err := Install(t.Context(), d.url("postgres"), guardRole); err == nil ||
		!strings.Contains(err.Error(), "newer program") {
		t.Errorf("installed over a newer version: %v", err)
	}
}
