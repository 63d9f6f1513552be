package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/leader/stores"
	"github.com/ringfence/ringfence/internal/program/cli"
	"github.com/ringfence/ringfence/internal/program/coordinators"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// testRefusedLogin gives leader run a wrong password of a store: another term could not log in either.
func testRefusedLogin(t *testing.T, program string) {
	pg := serverstest.Postgres(t, servers.PostgresOptions{
		HBA: "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n",
	})
	c, err := pgx.Connect(t.Context(), pg.URL("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), "create role app login password 'right'"); err != nil {
		t.Fatal(err)
	}
	s := newSite(t, program, serverstest.SharedZooKeeper(t), 20*time.Second)
	for name, url := range map[string]string{
		"postgres": strings.Replace(pg.URL("app", "postgres"), "app@", "app:wrong@", 1),
		"redis":    "redis://app:wrong@" + serverstest.SharedRedis(t).Addr() + "/0",
	} {
		t.Run(name, func(t *testing.T) {
			own := *s
			own.t = t
			own.set("LEADER_STORES", url)
			l := own.start("run", "orders", "--", "true")
			l.exits(runError)
			l.log.Await(t, "check user and password in LEADER_STORES")
			if log := l.log.String(); strings.Count(log, `"elected`) > 1 || strings.Count(log, "password authentication failed") > 1 {
				t.Errorf("more than one term, or the cause more than once: %s", log)
			}
		})
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
		code := p.run(t.Context(), []string{"status", "orders"})
		if text := out.String(); code != cli.Usage || strings.Contains(text, "bravo") || !strings.Contains(text, "%40") {
			t.Errorf("%s: exit %d: %s", setting, code, text)
		}
	}
}
