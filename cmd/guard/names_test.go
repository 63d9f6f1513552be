package main

import (
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/refusal"
)

// odd are names that the server allows.
var odd = []string{
	"a b, c", `qu"o'te`, "per%20cent/@:?&=#", `back\slash`, "new\nline", "Büro ж", " blanks ",
	"postgres://x@y/z", "host=1 dbname=2", "{{guard}} %s $$", strings.Repeat("x", 63),
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

func listed(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, quoted(name))
	}
	return strings.Join(all, ",")
}

func TestNamesHaveEveryCharacterThatTheServerAllows(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	admin := pg.URL("postgres", "postgres")
	for _, name := range odd {
		execute(t, admin, "create database "+quoted(name))
		execute(t, admin, "create role "+quoted(name)+" login")
	}
	for _, role := range odd {
		upstream, err := url.Parse(pg.URL(role, "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		env[0] = "GUARD_POSTGRES_UPSTREAM=" + upstream.String()
		if code, _, errs := invoke(t, env, "install"); code != cli.Done {
			t.Errorf("the guard's role %q: exit %d: %s", role, code, errs)
		}
		if code, out, errs := invoke(t, env, "status"); code != cli.Done {
			t.Errorf("the guard's role %q: exit %d: %s%s", role, code, out, errs)
		}
		if code, _, errs := invoke(t, env, "allow", role, "orders"); code != cli.Done {
			t.Errorf("allow %q: exit %d: %s", role, code, errs)
		}
	}
	env[0] = "GUARD_POSTGRES_UPSTREAM=" + pg.URL("guard", "postgres")
	invoke(t, env, "install")
	lists := append(env, "GUARD_POSTGRES_LEADERS="+listed(odd), "GUARD_POSTGRES_DATABASES="+
		listed(odd))
	if code, out, errs := invoke(t, lists, "install"); code != cli.Done ||
		strings.Count(out, "\n") != len(odd) {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if code, tokens := statusOf(t, env); code != cli.Done {
		t.Errorf("status: exit %d: %v", code, tokens)
	}
	for _, name := range odd {
		if code, out, errs := invoke(t, env, "status", "--databases", quoted(name)); code != cli.Done ||
			strings.Count(out, "\n") != 1 {
			t.Errorf("status of %q: exit %d: %s%s", name, code, out, errs)
		}
		schema := strings.TrimSuffix(name, "x") + "s" // of 63 bytes, too
		execute(t, pg.URL("postgres", name), "create schema "+quoted(schema)+" create table "+
			quoted(name)+" ()")
		for _, args := range [][]string{
			{"protect", "--database", name, "--resource", "orders", "--schema", quoted(schema)},
			{"check", "--databases", quoted(name), "--accept", "superuser,login-unguarded"},
			{"unprotect", "--database", name, quoted(schema) + "." + quoted(name)},
		} {
			if code, out, errs := invoke(t, env, args...); code != cli.Done && code != cli.Uncovered {
				t.Errorf("%q: exit %d: %s%s", args, code, out, errs)
			}
		}
	}
}

// A refusal says what an operator runs: a shell and the flag have to read the name as it is.
func TestTheHintInstallsInTheRightDatabase(t *testing.T) {
	t.Parallel()
	for _, name := range append([]string{"shop", "a,b", "it's", "a'b,c"}, odd...) {
		hint := refusal.NotInstalledIn(name, refusal.NotInstalled("", nil)).Hint
		command, ok := strings.CutPrefix(hint, "an operator runs: guard ")
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "set -- "+command+
			`; printf %s "$#$3"`).Output()
		names, badly := list(strings.TrimPrefix(string(out), "3"))
		if !ok || err != nil || badly != nil || len(names) != 1 || names[0] != name {
			t.Errorf("%q: %s: %q, %v, %v", name, hint, names, err, badly)
		}
	}
}

// What install prints installs in the right database, whatever its name means to psql.
func TestThePrintedInstallationFindsItsDatabase(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	var named []string
	for _, name := range odd {
		execute(t, pg.URL("postgres", "postgres"), "create database "+quoted(name))
		if !strings.Contains(name, "\n") {
			named = append(named, name)
		}
	}
	code, script, errs := invoke(t, env, "install", "--print", "--databases", listed(odd))
	if code != cli.Error || !strings.Contains(errs, `database new\nline: psql cannot`) {
		t.Errorf("exit %d: %s", code, errs)
	}
	psql := exec.CommandContext(t.Context(), "psql", "-v", "ON_ERROR_STOP=1", "-q",
		pg.URL("postgres", "postgres"))
	psql.Stdin = strings.NewReader(script)
	if out, err := psql.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if code, out, errs := invoke(t, env, "status", "--databases", listed(named)); code != cli.Done {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestInstallGoesOnAfterADatabaseThatFails(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	create(t, pg, "a", "closed", "interrupted", "newer", "z")
	execute(t, pg.URL("postgres", "newer"),
		"create schema ringfence; create function ringfence.version() returns integer language sql as "+
			"'select 1000'")
	execute(t, pg.URL("postgres", "postgres"), `alter database closed allow_connections false;
	    update pg_database set datconnlimit = -2 where datname = 'interrupted'`)
	code, out, errs := invoke(t, env, "install", "--all")
	last := strings.TrimSpace(errs[strings.LastIndex(strings.TrimSpace(errs), "\n")+1:])
	if code != cli.Error || !strings.Contains(last, "postgres, database newer: ") {
		t.Errorf("exit %d: %s", code, errs)
	}
	for _, name := range []string{"a", "postgres", "z"} {
		if !strings.Contains(out, fmt.Sprintf("postgres, database %s: installed\n", name)) {
			t.Errorf("%s is not installed: %s%s", name, out, errs)
		}
	}
	if code, out, _ := invoke(t, env, "status", "--all"); code != cli.Error ||
		!strings.Contains(out, "postgres/newer") {
		t.Errorf("status: exit %d: %s", code, out)
	}
}
