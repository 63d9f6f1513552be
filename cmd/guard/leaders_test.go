package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/program/cli"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

const mayTake = `select has_function_privilege($1,
	'ringfence.take(text, bigint, text, text, bigint, text)', 'execute')`

func TestInstallLetsOnlyLeadersKeepCheckpoints(t *testing.T) {
	pg := serverstest.SharedPostgres(t)
	database := serverstest.FreshDatabase(t, pg)
	conn, err := pgx.Connect(t.Context(), pg.URL("postgres", database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	roles := conn.PgConn().Exec(t.Context(), `create role keeper login;
		create role "Nightly Batch" login; create role stranger login; create role warden login`)
	if _, err := roles.ReadAll(); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"GUARD_POSTGRES_UPSTREAM=" + pg.URL("warden", database),
		"GUARD_POSTGRES_ADMIN=" + pg.URL("postgres", database),
		"GUARD_POSTGRES_LEADERS=keeper,Nightly Batch",
	}
	code, shown, _ := invoke(t, env, "install", "--print")
	if code != cli.Done || !strings.Contains(shown, `"Nightly Batch"`) {
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
	for _, setting := range []string{"GUARD_POSTGRES_LEADERS", "GUARD_POSTGRES_OPERATORS"} {
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
