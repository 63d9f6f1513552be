package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// testStores leads with a real Postgres and a real Redis as stores, without a guard.
func testStores(t *testing.T, program string) {
	pg, zk := serverstest.SharedPostgres(t), serverstest.SharedZooKeeper(t)
	database := pg.URL("postgres", serverstest.FreshDatabase(t, pg))
	cache := serverstest.SharedRedis(t).URL()
	s := newSite(t, program, zk, 20*time.Second)
	s.env = append(s.env, "LEADER_STORES="+database+","+cache, "LEADER_HOLDER=me")
	psql := []string{"run", "orders", "--", "psql", database, "-Atc",
		"select token::text = current_setting('fence.orders'), holder from ringfence_private.mark " +
			"where resource = 'orders'"}

	l := s.start(psql...)
	l.exits(runError)
	l.log.Await(t, "guard install")

	must.Succeed(t, pgmarks.Install(t.Context(), database, "postgres"))
	must.Succeed(t, redismarks.Install(t.Context(), cache))
	l = s.start(psql...)
	l.exits(0)
	if got := strings.TrimSpace(l.out.String()); got != "t|me" {
		t.Errorf("psql says %q", got)
	}

	t.Run("other issuer", func(t *testing.T) {
		other := *s
		other.env = append([]string{}, s.env...)
		for i, v := range other.env {
			if strings.HasPrefix(v, "LEADER_COORDINATOR=") {
				other.env[i] = v + "-rebuilt"
			}
		}
		l := other.start(psql...)
		l.exits(runError)
		l.log.Await(t, "guard adopt")
	})
	t.Run("a coordinator that was rolled back", func(t *testing.T) {
		out, err := exec.Command("psql", database, "-Atc",
			"select issuer from ringfence_private.mark where resource = 'orders'").Output()
		must.Succeed(t, err)
		newer := fence.Claim{
			Resource: "orders", Token: 1 << 60, Issuer: fence.Issuer(strings.TrimSpace(string(out))),
			Holder: "newer",
		}
		must.Succeed(t, pgmarks.NewRaiser(database).Raise(t.Context(), newer))
		l := s.start(psql...)
		l.exits(runError)
		l.log.Await(t, "guard adopt --new-issuer")
	})
}
