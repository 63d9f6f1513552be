package main

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/cli"
	"github.com/ringfence/ringfence/internal/servers"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
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
			l.exits(cli.Error)
			l.log.Await(t, "check user and password in LEADER_STORES")
			if log := l.log.String(); strings.Count(log, `"elected`) > 1 || strings.Count(log, "password authentication failed") > 1 {
				t.Errorf("more than one term, or the cause more than once: %s", log)
			}
		})
	}
}
