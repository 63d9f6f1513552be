package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// takeOvers is how often these tests lose the registry. If the guard's follower repaired it, nearly
// every new leader would be ended in Redis, and every third one in Postgres.
const takeOvers = 20

// The guard hears of the new leader while that one connects. It must not end it together with those
// whom the lost registry may have held.
func TestAfterALossInRedisTheNewLeaderIsAdmittedAtItsFirstTry(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{})
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	listen := serverstest.FreeAddresses(t, 1)[0]
	_, env := fresh(t)
	env = append(env, "GUARD_REDIS_UPSTREAM="+server.URL(), "GUARD_REDIS_LISTEN="+listen,
		"GUARD_COORDINATOR=zk://"+zk.Addr())
	if code, _, errs := invoke(t, env, "install"); code != 0 {
		t.Fatal(errs)
	}
	serving(t, env...).ready(http.StatusOK)
	operator := driver.NewClient(&driver.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = operator.Close() })

	term := elected(t, zk)
	older := leadsRedis(t, listen, term)
	for range takeOvers {
		must.Succeed(t, operator.Do(t.Context(), "SWAPDB", 0, 1).Err())
		resign(t, term)
		term = elected(t, zk)
		newer := leadsRedis(t, listen, term)
		if err := older.Ping(t.Context()).Err(); err == nil {
			t.Fatal("the older leader is still there")
		}
		older = newer
	}
}

// leadsRedis opens one connection under a term, with one try.
func leadsRedis(t *testing.T, addr string, term *fence.Term) *driver.Conn {
	t.Helper()
	db := driver.NewClient(&driver.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, PoolSize: 1,
		ReadTimeout: time.Minute, DisableIdentity: true, Protocol: 2})
	c := db.Conn()
	t.Cleanup(func() { _ = c.Close(); _ = db.Close() })
	ctx := context.WithoutCancel(t.Context())
	must.Succeed(t, c.Do(ctx, "FENCE", "orders", term.Token().String()).Err())
	must.Succeed(t, c.Ping(ctx).Err())
	return c
}

// In Postgres the registry is lost when the schema is made anew.
func TestAfterALossInPostgresTheNewLeaderIsAdmittedAtItsFirstTry(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	r, zk := coordinated(t, env)

	term := elected(t, zk)
	older, err := r.connect(int(term.Token()))
	must.Succeed(t, err)
	for range takeOvers {
		execute(t, pg.URL("postgres", "postgres"), "drop schema ringfence, ringfence_private cascade")
		if code, _, errs := invoke(t, env, "install"); code != 0 {
			t.Fatal(errs)
		}
		resign(t, term)
		term = elected(t, zk)
		newer, err := r.connect(int(term.Token()))
		if err == nil {
			err = newer.Ping(t.Context())
		}
		must.Succeed(t, err)
		if err := older.Ping(t.Context()); err == nil {
			t.Fatal("the older leader is still there")
		}
		older = newer
	}
}
