package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/guard"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/network/tlsconfig"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

const consoleHBA = `local all all trust
host all postgres,guard_role,trusted 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
`

// consoled starts a guard whose console viewer and trusted may use, and app may not. All passwords
// are "secret". The tap sees what the guard sends to the server.
func consoled(t *testing.T, with setup) (*guarded, *tap) {
	t.Helper()
	pg := serverstest.Postgres(t, servers.PostgresOptions{HBA: consoleHBA})
	database := prepared(t, pg, "postgres")
	sql(t, pg.URL("postgres", database), `create role viewer login password 'secret';
		create role trusted login; alter role app password 'secret';
		grant all on ledger, ledger_n_seq to public`)
	tap, control := tapBefore(t, pg, database)
	with.control = control
	with.Operators = []string{"viewer", "trusted"}
	return guardBefore(t, pg, database, with), tap
}

// console returns the URL of the console for a user, who may have a password behind a colon.
func (g *guarded) console(user string) string {
	return fmt.Sprintf("postgres://%s@%s/ringfence?application_name=desk", user, g.Addr)
}

// psql runs psql on the console and returns what it printed.
func (g *guarded) psql(t *testing.T, user string, statements ...string) (string, error) {
	t.Helper()
	args := []string{"-X", "-d", g.console(user)}
	for _, s := range statements {
		args = append(args, "-c", s)
	}
	out, err := exec.CommandContext(t.Context(), "psql", args...).CombinedOutput()
	t.Logf("psql %q\n%s", statements, out)
	return string(out), err
}

func TestAnOperatorReadsTheConsoleWithPsql(t *testing.T) {
	g, _ := consoled(t, setup{})
	leader, err := g.dialURL(g.url("app:secret", 7) + "&application_name=billing")
	if err != nil {
		t.Fatal(err)
	}
	g.exec(leader, "begin")
	for range 3 {
		_, err := g.dialURL(g.url("app:secret", 5) + "&application_name=late")
		wantCode(t, err, "RF001")
	}
	out, err := g.psql(t, "viewer:secret", "show help", "SHOW FENCES;", "show sessions",
		"show refusals; show elections", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{
		{"SHOW FENCES", "mark of each resource"},
		{"postgres", "orders", "7", "app@127.0.0.1:", "(billing)", "unverified", "t"},
		{"postgres", "orders", "7", "127.0.0.1:", "app", "billing", "idle in transaction"},
		{"postgres", "orders", "5", "7", "stale", "127.0.0.1:", "app", "late", "3"},
		{"NOTICE", "this guard has no coordinator"},
	} {
		if !hasLine(out, line) {
			t.Errorf("no line has %q:\n%s", line, out)
		}
	}
	if strings.Contains(out, "secret") {
		t.Errorf("a password shows:\n%s", out)
	}
}

// hasLine reports whether one line of a text has all these parts, in this order.
func hasLine(text string, parts []string) bool {
	for line := range strings.Lines(text) {
		rest, ok := line, true
		for _, part := range parts {
			var found bool
			_, rest, found = strings.Cut(rest, part)
			ok = ok && found
		}
		if ok {
			return true
		}
	}
	return false
}

func TestTheServerChecksThePasswordBeforeTheGuardChecksTheRole(t *testing.T) {
	g, _ := consoled(t, setup{})
	for _, test := range []struct{ user, code string }{
		{"viewer:wrong", "28P01"}, {"app:wrong", "28P01"}, {"nobody:wrong", "28P01"},
		{"app:secret", "42501"}, {"guard_role", "42501"}, {"viewer:secret", ""}, {"trusted", ""},
	} {
		c, err := g.dialURL(g.console(test.user))
		if test.code != "" {
			wantCode(t, err, test.code)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("%s: %v", test.user, err)
		}
	}
}

func TestNothingThatAClientOfTheConsoleSendsReachesTheDatabase(t *testing.T) {
	g, tap := consoled(t, setup{})
	const insert = "insert into ledger (token) values (1)"
	for name, run := range map[string]func(*pgconn.PgConn) error{
		"a simple query": func(c *pgconn.PgConn) error {
			_, err := c.Exec(t.Context(), insert).ReadAll()
			return err
		},
		"an extended query": func(c *pgconn.PgConn) error {
			return c.ExecParams(t.Context(), insert, nil, nil, nil, nil).Read().Err
		},
		"behind a statement of the console": func(c *pgconn.PgConn) error {
			_, err := c.Exec(t.Context(), "show help; "+insert).ReadAll()
			return err
		},
		"in a comment": func(c *pgconn.PgConn) error {
			_, err := c.Exec(t.Context(), "show help; --\n"+insert).ReadAll()
			return err
		},
		"copy": func(c *pgconn.PgConn) error {
			_, err := c.CopyFrom(t.Context(), strings.NewReader("1\n"), "copy ledger (token) from stdin")
			return err
		},
	} {
		c, err := g.dialURL(g.console("viewer:secret"))
		if err != nil {
			t.Fatal(err)
		}
		if got := code(run(c.PgConn())); got != "0A000" {
			t.Errorf("%s: got %s", name, got)
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("%s: the console is gone: %v", name, err)
		}
	}

	// A client may send its statement without waiting for the end of the login.
	w := dialWire(t, g.Addr)
	w.send(append(startupOf(0, "user", "trusted", "database", "ringfence", "options",
		"-c work_mem=5MB"), encode('Q', insert, "\x00")...))
	if e := w.until("E").error(t); e.Code != "0A000" {
		t.Errorf("a statement with the login: %+v", e)
	}
	_ = w.Close()

	g.Stop()
	for _, user := range []string{"viewer", "trusted"} {
		all := tap.sentBy(user)
		if len(all) == 0 {
			t.Errorf("no login of %s reached the server", user)
		}
		for _, sent := range all {
			if !onlyLogin(sent) || strings.Contains(string(sent), "work_mem") {
				t.Errorf("the server got %q", sent)
			}
		}
	}
	if n := g.count("select count(*) from ledger"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

// onlyLogin reports whether these bytes are a startup packet and answers to authentication requests.
func onlyLogin(sent []byte) bool {
	answers, rest := messages(sent[binary.BigEndian.Uint32(sent):])
	for _, m := range answers {
		if m.kind != 'p' {
			return false
		}
	}
	return len(rest) == 0
}

func TestPgxReadsTheConsoleInEveryMode(t *testing.T) {
	g, _ := consoled(t, setup{})
	if _, err := g.dialURL(g.url("app:secret", 7)); err != nil {
		t.Fatal(err)
	}
	c, err := g.dialURL(g.console("viewer:secret"))
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		for range 2 {
			var database, resource, holder, issuer string
			var token, sessions int64
			var raised time.Time
			var confirmed, back bool
			err := c.QueryRow(t.Context(), "show fences", mode).Scan(&database, &resource, &token,
				&holder, &issuer, &raised, &confirmed, &sessions, &back)
			if err != nil || resource != "orders" || token != 7 || !confirmed || sessions != 1 || back ||
				time.Since(raised).Abs() > time.Hour {
				t.Errorf("%v: %v: %v %v %v %v %v", mode, err, resource, token, raised, confirmed, sessions)
			}
			_, err = c.Exec(t.Context(), "select 1", mode)
			wantCode(t, err, "0A000")
			_, err = c.Exec(t.Context(), "show tables", mode)
			wantCode(t, err, "42704")
		}
	}
}

func TestTheConsoleShowsWhoLeadsAtTheCoordinator(t *testing.T) {
	co := &coordinator{issuer: "zk:one"}
	co.elects("orders", 7)
	g, _ := consoled(t, setup{Options: Options{
		Resources: []fence.Resource{"orders", "stock"},
		Admission: &marks.Admission{Authority: marks.Elected{Observer: co}},
	}})
	out, err := g.psql(t, "viewer:secret", "show elections")
	if err != nil || !hasLine(out, []string{"orders", "7", "host-7", "zk:one"}) ||
		!hasLine(out, []string{"stock", "|", "|", "zk:one"}) {
		t.Errorf("%v:\n%s", err, out)
	}
	co.becomes("zk:one", context.DeadlineExceeded)
	if out, err = g.psql(t, "viewer:secret", "show elections"); err == nil ||
		!strings.Contains(out, "the coordinator did not answer") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestAClientWithATokenGetsTheDatabaseThatIsCalledRingfence(t *testing.T) {
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	sql(t, pg.URL("postgres", "postgres"), "create database ringfence")
	database := prepared(t, pg, "ringfence")
	g := guardBefore(t, pg, database, setup{Options: Options{Operators: []string{"app"}}})
	g.exec(g.open(5), "insert into ledger (token) values (5)")
	c, err := g.dialURL(g.console("app"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), "insert into ledger (token) values (5)")
	wantCode(t, err, "0A000")
	_, err = g.dialURL(g.withOptions("app", "-c fence.orders=oops"))
	wantCode(t, err, "RF003")
	if n := g.count("select count(*) from ledger"); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestWithoutOperatorsThereIsNoConsole(t *testing.T) {
	g := fenced(t)
	_, err := g.dialURL(g.console("app"))
	wantCode(t, err, "RF002")
}

func TestAShutdownEndsAConsole(t *testing.T) {
	g, _ := consoled(t, setup{drain: time.Hour})
	w := dialWire(t, g.Addr)
	w.login("user", "trusted", "database", "ringfence")
	stopped := g.stopping()
	if e := w.until("E").error(t); e.Code != "57P01" {
		t.Errorf("the client got %+v", e)
	}
	<-stopped
}

func TestAnIdleConsoleEnds(t *testing.T) {
	g, _ := consoled(t, setup{Options: Options{ConsoleIdle: time.Millisecond}})
	w := dialWire(t, g.Addr)
	w.login("user", "trusted", "database", "ringfence")
	if e := w.until("E").error(t); e.Code != "57P05" {
		t.Errorf("the client got %+v", e)
	}
	g.AwaitMetric("ringfence_connections_ended_total", "idle", 1)
}

func TestAConsoleGivesItsPlaceToALeader(t *testing.T) {
	g, _ := consoled(t, setup{limit: func(s *guard.Server) {
		s.MaxUnadmitted, s.Grace = 1, time.Millisecond
	}})
	w := dialWire(t, g.Addr)
	w.login("user", "trusted", "database", "ringfence")
	if _, err := g.dialURL(g.url("app:secret", 7)); err != nil {
		t.Fatal(err)
	}
	w.expectEviction()
}

func TestAConsoleOverTLS(t *testing.T) {
	e := encryptedPostgres(t)
	tls := with(t, tlsconfig.Files{}, e.authority.Issue("the guard"))
	tls.Require = true
	g := guardBefore(t, e.pg, e.database, setup{
		control: e.control("sslmode=require"),
		Options: Options{TLS: tls, Operators: []string{"salted"}},
	})
	c, err := g.dialURL(g.console("salted:secret") + "&channel_binding=disable&sslmode=require")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	_, err = g.dialURL(g.console("salted:secret") + "&sslmode=disable")
	wantCode(t, err, "28000")
	g.Stop()
	wantCode(t, c.Ping(t.Context()), "57P01")
}
