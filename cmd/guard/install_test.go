package main

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/program/cli"
)

// The role of GUARD_COORDINATOR owns nothing in the database that has the elections.
func TestAnInstallOfOtherDatabasesLeavesTheElectionsAlone(t *testing.T) {
	pg, env := fresh(t)
	create(t, pg, "shop", "tenant6")
	env = append(env, "GUARD_COORDINATOR="+pg.URL("app", "shop"))
	code, out, errs := invoke(t, env, "install", "--databases", "shop")
	if code != cli.Done || !strings.Contains(out, "coordinator: installed") {
		t.Fatalf("with the elections: exit %d: %s%s", code, out, errs)
	}
	code, out, errs = invoke(t, env, "install", "--databases", "tenant6")
	if code != cli.Done || strings.Contains(out, "coordinator") {
		t.Errorf("of another database: exit %d: %s%s", code, out, errs)
	}
}

func TestAnInstallByARoleThatMayNotNamesTheSetting(t *testing.T) {
	_, env := fresh(t)
	for range 2 { // without the schema, and with it
		code, out, errs := invoke(t, env[:1], "install")
		if code != cli.Error || out != "" ||
			!strings.Contains(errs, "nothing was changed") || !strings.Contains(errs, "GUARD_POSTGRES_ADMIN") {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		if code, _, errs := invoke(t, env, "install"); code != cli.Done {
			t.Fatal(errs)
		}
	}
}
