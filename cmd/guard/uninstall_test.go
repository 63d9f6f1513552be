package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// An installation is used, and removed from every server, with the elections in a database of their
// own.
func TestAnInstallationIsUsedAndRemovedWithoutATrace(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	create(t, pg, "shop", "held")
	rd := serverstest.Redis(t, servers.RedisOptions{})
	coordinator := pg.URL("postgres", "held")
	env = append(env, "GUARD_REDIS_UPSTREAM="+rd.URL(), "GUARD_COORDINATOR="+coordinator,
		"GUARD_POSTGRES_LEADERS=app")
	uninstall := func(want int, args []string, parts ...string) {
		t.Helper()
		code, out, errs := invoke(t, env, append([]string{"uninstall"}, args...)...)
		if code != want {
			t.Errorf("uninstall %q: exit %d: %s%s", args, code, out, errs)
		}
		says(t, out+errs, parts...)
	}
	schemas := func(database string) int {
		return pgtest.Value[int](t, pg.URL("postgres", database),
			"select count(*) from pg_namespace where "+
				"nspname ~ '^ringfence'")
	}
	uninstall(cli.Done, []string{"--yes"}, "nothing is installed")
	for _, args := range [][]string{{"install"}, {"install", "--databases", "shop"}} {
		if code, out, errs := invoke(t, env, args...); code != cli.Done {
			t.Fatalf("%q: exit %d: %s%s", args, code, out, errs)
		}
	}
	uninstall(cli.Done, nil, "postgres, database shop\n  drops    schema ringfence\n", "postgres, "+
		"database held\n",
		"redis\n  drops    key ringfence and its like: marks: 0", "nothing was changed; add --yes",
		"stays    role guard, with what is granted to it: pg_read_all_stats, pg_signal_backend")

	r := serving(t, env...)
	r.ready(http.StatusOK)
	uninstall(cli.Error, []string{"--yes"}, "blocked  a guard is connected from 127.0.0.1: stop it",
		"nothing was changed: see what is blocked")
	r.stop()
	if code := <-r.exited; code != cli.Done {
		t.Fatal(code)
	}
	r.exited <- cli.Done

	shop := pg.URL("postgres", "shop")
	execute(t, shop, "create table entry (token bigint)")
	if code, out, errs := invoke(t, env, "protect", "--database", "shop", "--resource", "orders",
		"entry"); code != cli.Done {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	uninstall(cli.Error, []string{"--yes"}, "blocked  sealed: public.entry: guard unprotect takes "+
		"the seal off")
	if code, out, errs := invoke(t, env, "unprotect", "--database", "shop",
		"entry"); code != cli.Done {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	execute(t, pg.URL("app", "shop"), "select * from ringfence.campaign('orders', 'w1', '1 hour')")
	uninstall(cli.Error, []string{"--yes"},
		`blocked  an election is running: w1 stands for "orders": stop it, or wait until `)
	execute(t, pg.URL("app", "shop"), "select ringfence.leave(c.pass) from "+
		"ringfence.campaign('orders', 'w1', '1 hour') c")

	// An unlucky order would have removed one store, and then have found that another is blocked.
	for _, database := range []string{"postgres", "shop", "held"} {
		if schemas(database) == 0 {
			t.Errorf("%s has lost its schema", database)
		}
	}
	uninstall(cli.Done, []string{"--yes"}, "postgres, database postgres: removed", "postgres, "+
		"database shop: removed",
		"redis: removed", "postgres, database held: removed")
	for _, database := range []string{"postgres", "shop", "held"} {
		if n := schemas(database); n != 0 {
			t.Errorf("%s has %d schemas left", database, n)
		}
	}
	db := redis.NewClient(&redis.Options{Addr: rd.Addr()})
	defer db.Close()
	if n, err := db.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("redis has %d keys, %v", n, err)
	}
	// the user's own is there, and nothing is in its way
	execute(t, shop, "insert into entry values (1)")
}

// A guard that is started after a removal says what is missing.
func TestAfterARemovalClientsAreToldThatNothingIsInstalled(t *testing.T) {
	t.Parallel()
	_, env := fresh(t)
	invoke(t, env, "install")
	if code, out, errs := invoke(t, env, "uninstall", "--yes"); code != cli.Done {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	r := serving(t, env...)
	if body := r.ready(http.StatusServiceUnavailable); !strings.Contains(body, "guard install") {
		t.Errorf("/readyz says %s", body)
	}
	_, err := r.connect(5)
	wantCode(t, err, "RF005")
}
