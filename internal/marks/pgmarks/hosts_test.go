package pgmarks_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// Whatever takes a URL takes one of several hosts, of which the first is down here.
func TestAURLOfSeveralHostsLeadsToThePrimary(t *testing.T) {
	t.Parallel()
	pg := serverstest.SharedPostgres(t)
	database := serverstest.FreshDatabase(t, pg)
	down := serverstest.FreeAddresses(t, 1)[0]
	pgtest.Role(t, pg.URL("postgres", database), "guard_role", "login")
	several := func(user, database string) string {
		return strings.Replace(pg.URL(user, database), pg.Addr(), down+","+pg.Addr(), 1)
	}
	other := pgmarks.ForDatabase(several("postgres", "postgres"), database)
	if name, err := pgmarks.DatabaseOf(other); err != nil || name != database {
		t.Errorf("%s leads to %s, %v", other, name, err)
	}
	must.Succeed(t, pgmarks.Install(t.Context(), other, "guard_role"))
	claim := fence.Claim{Resource: "orders", Token: 5, Issuer: elector.Unverified, Holder: "a"}
	url := several("guard_role", database)
	must.Succeed(t, pgmarks.NewRaiser(url).Raise(t.Context(), claim))
	store, err := pgmarks.Open(url, pgmarks.Options{})
	must.Succeed(t, err)
	defer store.Close()
	found, err := store.Marks(t.Context())
	if err != nil || len(found) != 1 || found[0].Token != 5 {
		t.Errorf("%+v, %v", found, err)
	}
	at := strings.Split(strings.TrimSuffix(pgmarks.Address(url), "/"+database), ",")
	if !slices.Contains(at, down) || !slices.Contains(at, pg.Addr()) {
		t.Errorf("the address is shown as %s", pgmarks.Address(url))
	}
}

// A few such calls would keep all control connections, and the next leader waiting for them.
func TestACallAtAFrozenPrimaryEndsWhenAnotherServerIsPromoted(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	must.Succeed(t, pgmarks.Install(t.Context(), pg.URL("postgres", "postgres"), "postgres"))
	standby, err := pg.StartStandby(t.Context(), "standby")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = standby.Close() })
	both := strings.Replace(pg.URL("postgres", "postgres"), pg.Addr(), pg.Addr()+","+standby.Addr(), 1)
	s, err := pgmarks.Open(both, pgmarks.Options{Connections: 1})
	must.Succeed(t, err)
	t.Cleanup(s.Close)
	_, err = s.Marks(t.Context())
	must.Succeed(t, err)

	must.Succeed(t, pg.Pause())
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _ = s.Marks(ctx)
		ended <- ctx.Err()
	}()
	pgtest.Exec(t, standby.URL("postgres", "postgres"), "select pg_promote()")
	if err := <-ended; err != nil {
		t.Errorf("the call goes on until %v", err)
	}
	_, err = s.Marks(t.Context())
	must.Succeed(t, err)
}
