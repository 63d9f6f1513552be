package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	redisdriver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/cmd/internal/cli"
	"github.com/ringfence/ringfence/cmd/leader/internal/stores"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// testRefusedRaise gives leader run and leader task a user that may not log in at a store, or may
// not raise the mark there: another term could not do it either.
func testRefusedRaise(t *testing.T, program string) {
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		HBA: "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 " +
			"scram-sha-256\n",
	})
	database, cache := pg.URL("postgres", "postgres"), serverstest.Redis(t, servers.RedisOptions{})
	must.Succeed(t, pgmarks.Install(t.Context(), database, "postgres"))
	must.Succeed(t, redismarks.Install(t.Context(), cache.URL()))
	c, err := pgx.Connect(t.Context(), database)
	must.Succeed(t, err)
	defer c.Close(t.Context())
	_, err = c.Exec(t.Context(), "create role app login password 'right'")
	must.Succeed(t, err)
	driver := redisdriver.NewClient(&redisdriver.Options{Addr: cache.Addr()})
	defer driver.Close()
	must.Succeed(t, driver.Do(t.Context(), "acl", "setuser", "app", "on", ">right", "~app:*",
		"+@all").Err())

	s := newSite(t, program, serverstest.SharedZooKeeper(t), 20*time.Second)
	task := filepath.Join(t.TempDir(), "t.yaml")
	must.Succeed(t, os.WriteFile(task,
		[]byte("task: t\nresource: orders\nsteps: [{name: s, run: 'true'}]\n"), 0o600))
	for kind, url := range map[string]string{
		"postgres": strings.Replace(pg.URL("app", "postgres"), "app@", "app:PASSWORD@", 1),
		"redis":    "redis://app:PASSWORD@" + cache.Addr() + "/0",
	} {
		for password, want := range map[string]string{
			"wrong": "check user and password in the URL", "right": map[string]string{
				"postgres": "may not lead", "redis": "lacks a",
			}[kind],
		} {
			for _, args := range [][]string{{"run", "orders", "--", "true"}, {"task", task}} {
				t.Run(kind+" "+password+" "+args[0], func(t *testing.T) {
					at := *s
					at.t = t
					at.set("LEADER_JOURNAL", "coordinator")
					at.set("LEADER_STORES", strings.Replace(url, "PASSWORD", password, 1))
					l := at.start(args...)
					l.exits(own(args[0], cli.Error))
					l.log.Await(t, want)
					if log := l.log.String(); strings.Count(log, `"elected`) > 1 ||
						strings.Count(log, "password authentication failed") > 1 {
						t.Errorf("more than one term, or the cause more than once: %s", log)
					}
				})
			}
		}
	}
}

func TestAPasswordWithAnUnescapedAtIsNotPrintedInPart(t *testing.T) {
	for _, setting := range []string{"LEADER_COORDINATOR", "LEADER_STORES"} {
		out := leadertest.NewScreen()
		signals := make(chan os.Signal)
		p := &program{
			Streams: cli.Streams{
				Env: []string{
					"LEADER_SESSION_TIMEOUT=1s", "LEADER_COORDINATOR=postgres://u@127.0.0.1:1/x",
					setting + "=postgres://u:alpha@bravo@127.0.0.1:1/x",
				},
				Stdout: out, Stderr: out,
			},
			electors: coordinators.All, stores: stores.All,
			notify: func() (<-chan os.Signal, func()) { return signals, func() { close(signals) } },
		}
		code := p.run(t.Context(), []string{"run", "orders", "--", "true"})
		if text := out.String(); code != cli.OwnOffset+cli.Usage || strings.Contains(text, "bravo") ||
			!strings.Contains(text, "%40") {
			t.Errorf("%s: exit %d: %s", setting, code, text)
		}
	}
}
