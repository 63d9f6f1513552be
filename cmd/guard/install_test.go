package main

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// A guard needs no functions, so an install whose user may not load them succeeds, and says so.
func TestAnInstallOfRedisLoadsTheFunctionsIfItMay(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{})
	db := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer db.Close()
	_, rule, _ := strings.Cut(redismarks.ACL("keeper", "secret"), " ")
	var args []any
	for _, word := range strings.Fields("ACL " + rule) {
		args = append(args, word)
	}
	must.Succeed(t, db.Do(t.Context(), args...).Err())
	env := []string{"GUARD_REDIS_UPSTREAM=redis://keeper:secret@" + server.Addr() + "/0"}
	code, out, errs := invoke(t, env, "install")
	if code != cli.Done || !strings.Contains(out, "redis: installed\nredis: without functions: ") {
		t.Errorf("without the right: exit %d: %s%s", code, out, errs)
	}
	must.Succeed(t, db.Do(t.Context(), "ACL", "SETUSER", "keeper", "+function|load").Err())
	code, out, errs = invoke(t, env, "install")
	if code != cli.Done || out != "redis: was installed, nothing to change\n" {
		t.Errorf("with the right: exit %d: %s%s", code, out, errs)
	}
	if v, err := db.FCall(t.Context(), "ringfence_version", nil).Text(); err != nil || v != "1" {
		t.Errorf("%q, %v", v, err)
	}
}

// The role of GUARD_COORDINATOR owns nothing in the database that has the elections.
func TestAnInstallOfOtherDatabasesLeavesTheElectionsAlone(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	create(t, pg, "shop", "tenant6")
	env = append(env, "GUARD_COORDINATOR="+pg.URL("app", "shop"))
	code, out, errs := invoke(t, env, "install", "--databases", "shop")
	if code != cli.Done || out != "postgres: installed\n" {
		t.Fatalf("with the elections: exit %d: %s%s", code, out, errs)
	}
	code, out, errs = invoke(t, env, "install", "--databases", "shop")
	if unchanged := "was installed, nothing to change\n"; code != cli.Done ||
		out != "postgres: "+unchanged {
		t.Errorf("a second time: exit %d: %s%s", code, out, errs)
	}
	execute(t, pg.URL("postgres", "shop"), "revoke execute on function ringfence.enter(text) from "+
		"public")
	code, out, errs = invoke(t, env, "install", "--databases", "shop")
	if code != cli.Done || !strings.Contains(out, "postgres: installed\n") {
		t.Errorf("with something to repair: exit %d: %s%s", code, out, errs)
	}
	code, out, errs = invoke(t, env, "install", "--databases", "tenant6")
	if code != cli.Done || strings.Contains(out, "coordinator") {
		t.Errorf("of another database: exit %d: %s%s", code, out, errs)
	}
}

func TestAnInstallByARoleThatMayNotNamesTheSetting(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	for range 2 { // without the schema, and with it
		code, out, errs := invoke(t, env[:1], "install")
		if code != cli.Error || out != "" ||
			!strings.Contains(errs, "nothing was changed") ||
			!strings.Contains(errs, "GUARD_POSTGRES_ADMIN") {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
		if code, _, errs := invoke(t, env, "install"); code != cli.Done {
			t.Fatal(errs)
		}
	}
}
