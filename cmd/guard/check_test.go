package main

import (
	"encoding/json"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ringfence/ringfence/cmd/guard/internal/seal"
	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestSealedTablesFromProtectToUnprotect(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	url := pg.URL("postgres", "postgres")
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		code, out, errs := invoke(t, env, args...)
		if code != want {
			t.Errorf("guard %q: exit %d, want %d: %s%s", args, code, want, out, errs)
		}
		return out, errs
	}
	execute(t, url, "create table entry (token bigint); grant all on entry to app")
	if _, errs := run(cli.Error, "protect", "--resource", "orders", "entry"); !strings.Contains(errs,
		"guard install") {
		t.Errorf("before the installation: %s", errs)
	}
	run(cli.Done, "install")
	run(cli.Usage, "protect", "entry")
	run(cli.Usage, "protect", "--resource", "Orders", "entry")
	run(cli.Usage, "protect", "--resource", "orders")
	run(cli.Usage, "check", "-o", "yaml")

	if out, _ := run(cli.Done, "unprotect", "entry"); out != "\"public\".\"entry\": was not sealed\n" {
		t.Errorf("unprotect: %s", out)
	}
	script, _ := run(cli.Done, "protect", "--print", "--resource", "orders", "entry")
	execute(t, url, "insert into entry values (1)") // nothing is sealed yet
	psql := exec.CommandContext(t.Context(), "psql", "-v", "ON_ERROR_STOP=1", "-q", url)
	psql.Stdin = strings.NewReader(script)
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	env = append(env, "GUARD_RESOURCES=orders")
	if out, _ := run(cli.Done, "protect", "--schema", "public"); out != "\"public\".\"entry\": "+
		"sealed for orders\n" {
		t.Errorf("protect: %s", out)
	}

	r := serving(t, env...)
	r.ready(200)
	member, err := r.connect(1)
	must.Succeed(t, err)
	if _, err := member.Exec(t.Context(), "insert into entry values (1)"); err != nil {
		t.Error(err)
	}
	stranger := pgtest.Connect(t, pg.URL("app", "postgres"))
	_, err = stranger.Exec(t.Context(), "insert into entry values (1)")
	wantCode(t, err, "RF002")

	out, _ := run(cli.Uncovered, "check", "-o", "json")
	var reports []checked
	if err := json.Unmarshal([]byte(out), &reports); err != nil || len(reports) != 1 ||
		reports[0].Sealed != 1 || reports[0].Database != "postgres" {
		t.Fatalf("%v: %s", err, out)
	}
	var all []string
	for _, f := range reports[0].Findings {
		all = append(all, f.ID+":"+f.Object)
	}
	run(cli.Done, "check", "--accept", strings.Join(all, ","))
	execute(t, url, "alter table entry disable trigger all")
	out, errs := run(cli.Uncovered, "check", "--accept", strings.Join(append(all, "none"), ","))
	if !strings.Contains(out, "seal-changed  public.entry") || !strings.Contains(errs, "none fits "+
		"no finding") {
		t.Errorf("a disabled seal: %s%s", out, errs)
	}
	if out, _ := run(cli.Done, "unprotect",
		"entry"); out != "\"public\".\"entry\": no longer sealed\n" {
		t.Errorf("unprotect: %s", out)
	}
	if _, err := stranger.Exec(t.Context(), "insert into entry values (1)"); err != nil {
		t.Error(err)
	}

	env = append(env, "GUARD_POSTGRES_UPSTREAM="+
		serverstest.PgBouncer(t, pg, servers.PgBouncerOptions{}).URL("guard", "postgres"))
	if out, _ := run(cli.Uncovered, "check"); !strings.Contains(out, "; nothing else was "+
		"checked\n\npooler ") {
		t.Errorf("through a pooler: %s", out)
	}
	env = []string{"GUARD_REDIS_UPSTREAM=redis://h"}
	run(cli.Usage, "check")
	run(cli.Usage, "protect", "--resource", "orders", "entry")
}

func TestEveryDatabaseOfTheSettingsIsChecked(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	create(t, pg, "shop", "crm", "hr")
	env = append(env, "GUARD_POSTGRES_DATABASES=shop,crm")
	if code, out, errs := invoke(t, env, "install"); code != cli.Done {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	execute(t, pg.URL("postgres", "crm"), "create table ledger (n int); grant insert on ledger to app")
	code, out, errs := invoke(t, env, "check", "-o", "json")
	var reports []checked
	if err := json.Unmarshal([]byte(out), &reports); err != nil || code != cli.Uncovered ||
		len(reports) != 2 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	var everywhere []string // findings of the server
	for i, database := range []string{"shop", "crm"} {
		r, open := reports[i], false
		for _, f := range r.Findings {
			open = open || f.Object == "public.ledger"
			if f.Object != "public.ledger" {
				everywhere = append(everywhere, f.ID+":"+f.Object)
			}
		}
		if r.Store != "postgres" || r.Database != database || open != (database == "crm") {
			t.Errorf("%s: %s", database, out)
		}
	}
	accept := strings.Join(everywhere, ",")
	if code, out, _ = invoke(t, env, "check", "--accept", accept); code != cli.Uncovered ||
		!regexp.MustCompile(`(?s)postgres, database shop; .*postgres, database crm; .*public\.ledger`).
			MatchString(out) {
		t.Errorf("the second has a finding: exit %d: %s", code, out)
	}
	for database, want := range map[string]int{
		"shop": cli.Done, "crm": cli.Uncovered, "shop,crm": cli.Uncovered, "shop,nosuch": cli.Error,
	} {
		code, out, errs := invoke(t, env, "check", "--databases", database, "--accept", accept)
		if code != want || !strings.Contains(out, "database "+strings.Split(database, ",")[0]) {
			t.Errorf("%s: exit %d: %s%s", database, code, out, errs)
		}
	}
	code, out, errs = invoke(t, env, "check", "--all", "--accept", accept)
	if code != cli.Uncovered || strings.Contains(out, "database hr") {
		t.Errorf("all that have the schema: exit %d: %s%s", code, out, errs)
	}
}

func TestANameAddsNoLinesToTheReport(t *testing.T) {
	t.Parallel()
	const name = "x\n\nfindings: 0, accepted: 0\x1b[2J"
	var b strings.Builder
	err := printReports(&b, []checked{{"postgres",
		&seal.Report{Database: name, Schemas: []string{name}, Findings: []seal.Finding{
			{
				ID: "table-unsealed", Object: name, What: "roles: " + name, Why: "why", Do: "guard protect " +
					name,
			},
		}}}})
	if err != nil || strings.Count(b.String(), "\n") != 8 || strings.Contains(b.String(), "\x1b") ||
		!strings.Contains(b.String(), `guard protect x\n\nfindings: 0, accepted: 0\x1b[2J`) {
		t.Errorf("%v:\n%s", err, b.String())
	}
}

// execute runs SQL, and again if a guard was in its way: Postgres ends one of two that wait for
// each other.
func execute(t *testing.T, url, text string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	must.Succeed(t, err)
	defer c.Close(t.Context())
	const tries = 5
	for try := 1; ; try++ {
		_, err := c.PgConn().Exec(t.Context(), text).ReadAll()
		if err == nil {
			return
		}
		if pg, ok := errors.AsType[*pgconn.PgError](err); !ok || pg.Code != "40P01" || try == tries {
			t.Fatalf("%s: %v", text, err)
		}
	}
}
