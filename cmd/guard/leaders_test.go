package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

const mayTake = `select has_function_privilege($1,
	'ringfence.resume(text, bigint, text, text, bigint, text)', 'execute')`

func TestInstallLetsOnlyLeadersKeepCheckpoints(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	database := serverstest.FreshDatabase(t, pg)
	conn := pgtest.Connect(t, pg.URL("postgres", database))
	roles := conn.PgConn().Exec(t.Context(), `create role keeper login;
		create role "Nightly Batch" login; create role stranger login; create role warden login`)
	_, err := roles.ReadAll()
	must.Succeed(t, err)
	env := []string{
		"GUARD_POSTGRES_UPSTREAM=" + pg.URL("warden", database),
		"GUARD_POSTGRES_ADMIN=" + pg.URL("postgres", database),
		"GUARD_POSTGRES_LEADERS=keeper,Nightly Batch",
	}
	code, shown, _ := invoke(t, env, "install", "--print")
	if code != cli.Done || !strings.Contains(shown, `E'Nightly Batch'`) {
		t.Errorf("--print does not show the leaders: %d %s", code, shown)
	}
	if code, _, errs := invoke(t, env, "install"); code != cli.Done {
		t.Fatal(errs)
	}
	for role, want := range map[string]bool{"keeper": true, "Nightly Batch": true, "stranger": false} {
		var may bool
		if err := conn.QueryRow(t.Context(), mayTake, role).Scan(&may); err != nil || may != want {
			t.Errorf("%s: %v %v", role, may, err)
		}
	}
}

func TestRolesAreSeparatedByCommasWithoutSpaces(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"GUARD_POSTGRES_LEADERS", "GUARD_POSTGRES_DATABASES"} {
		for _, list := range []string{"keeper, batch", "keeper,,batch", " keeper"} {
			code, _, errs := invoke(t, []string{
				"GUARD_POSTGRES_UPSTREAM=postgres://guard@h/db", setting + "=" + list,
			}, "install", "--print")
			if code != cli.Usage || !strings.Contains(errs, setting) {
				t.Errorf("%s=%q: exit %d: %s", setting, list, code, errs)
			}
		}
	}
}

func TestADatabaseWithoutAGuardNeedsItsAdministratorOnly(t *testing.T) {
	t.Parallel()
	pg, _ := fresh(t)
	env := []string{"GUARD_POSTGRES_ADMIN=" + pg.URL("postgres", "postgres"),
		"GUARD_POSTGRES_LEADERS=app"}
	for _, args := range [][]string{
		{"install", "--print"}, {"install"}, {"status"}, {"allow", "app", "orders"},
		{"check", "--accept", "superuser,login-unguarded"},
	} {
		code, out, errs := invoke(t, env, args...)
		if code != cli.Done && code != cli.Uncovered || args[0] == "check" &&
			strings.Contains(out, "guard's role") {
			t.Errorf("%q: exit %d: %s%s", args, code, out, errs)
		}
	}
	raiser := pgmarks.Raiser{URL: pg.URL("app", "postgres")}
	must.Report(t, raiser.Raise(t.Context(), fence.Claim{
		Resource: "orders", Token: 5, Issuer: "zk:a", Holder: "h",
	}))
	code, _, errs := invoke(t, append(env, "GUARD_POSTGRES_LISTEN=127.0.0.1:0"), "serve")
	if code != cli.Usage || !strings.Contains(errs, "GUARD_POSTGRES_LISTEN is set, "+
		"GUARD_POSTGRES_UPSTREAM is not") {
		t.Errorf("serve: exit %d: %s", code, errs)
	}
	if code, out, errs := invoke(t, env, "uninstall", "--yes"); code != cli.Done {
		t.Errorf("uninstall: exit %d: %s%s", code, out, errs)
	}
}

func TestARoleIsNotAGuardsAndAProgramsAtOnce(t *testing.T) {
	t.Parallel()
	code, _, errs := invoke(t, []string{
		"GUARD_POSTGRES_UPSTREAM=postgres://app@h/db", "GUARD_POSTGRES_LEADERS=batch,app",
	}, "install")
	if code != cli.Usage || !strings.Contains(errs, "GUARD_POSTGRES_LEADERS names the role of "+
		"GUARD_POSTGRES_UPSTREAM") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// The role of the coordinator's URL may take part there, and not install.
func TestASecondDatabaseIsInstalledWhoseElectionsAreInTheFirst(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	create(t, pg, "second")
	execute(t, pg.URL("postgres", "postgres"), "create role elections login")
	env = append(env, "GUARD_COORDINATOR="+pg.URL("elections", "postgres"))
	second := append(slices.Clone(env), "GUARD_POSTGRES_UPSTREAM="+pg.URL("guard", "second"),
		"GUARD_POSTGRES_ADMIN="+pg.URL("postgres", "second"))
	if code, _, errs := invoke(t, second, "install"); code != cli.Error ||
		!strings.Contains(errs, "coordinator: ") {
		t.Errorf("without elections: exit %d: %s", code, errs)
	}
	if code, _, errs := invoke(t, env, "install"); code != cli.Done {
		t.Fatalf("the first: exit %d: %s", code, errs)
	}
	code, out, errs := invoke(t, second, "install")
	if code != cli.Done || !strings.Contains(out, "coordinator: was installed, nothing to change") {
		t.Errorf("the second: exit %d: %s%s", code, out, errs)
	}
}
