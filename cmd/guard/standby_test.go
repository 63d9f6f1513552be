package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/test/must"
	"github.com/ringfence/ringfence/internal/test/pgtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// A guard beside a standby listens and is not ready, so a balancer that asks /readyz sends nobody
// there. When its servers are promoted, the guard serves.
func TestAGuardWaitsAtAStandbyAndAReplicaUntilTheyArePromoted(t *testing.T) {
	t.Parallel()
	pg, env := fresh(t)
	first, second := serverstest.Redis(t, servers.RedisOptions{}),
		serverstest.Redis(t, servers.RedisOptions{})
	zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{})
	env = append(env,
		"GUARD_REDIS_UPSTREAM=redis://"+first.Addr(), "GUARD_COORDINATOR=zk://"+zk.Addr())
	if code, out, errs := invoke(t, env, "install"); code != 0 {
		t.Fatalf("install: exit %d: %s%s", code, out, errs)
	}
	standby, err := pg.StartStandby(t.Context(), "standby")
	must.Succeed(t, err)
	t.Cleanup(func() { _ = standby.Close() })
	replica := redis.NewClient(&redis.Options{Addr: second.Addr()})
	t.Cleanup(func() { _ = replica.Close() })
	host, port, _ := strings.Cut(first.Addr(), ":")
	must.Succeed(t, replica.ReplicaOf(t.Context(), host, port).Err())
	leader := elected(t, zk)
	token := int(leader.Token())

	for i := range env {
		env[i] = strings.NewReplacer(pg.Addr(), standby.Addr(), first.Addr(), second.Addr()).
			Replace(env[i])
	}
	listen := serverstest.FreeAddresses(t, 1)[0]
	r := serving(t, append(env, "GUARD_REDIS_LISTEN="+listen)...)
	body := r.ready(http.StatusServiceUnavailable)
	if !strings.Contains(body, "is a standby") || !strings.Contains(body, "is a replica") {
		t.Errorf("/readyz says %s", body)
	}
	_, err = r.connect(token)
	wantCode(t, err, "57P03")
	if answer := claimRedis(t, listen, token); !strings.HasPrefix(answer, "-") {
		t.Errorf("a claim at a replica: %s", answer)
	}

	must.Succeed(t, pg.Kill())
	pgtest.Value[bool](t, standby.URL("postgres", "postgres"), "select pg_promote()")
	must.Succeed(t, replica.ReplicaOf(t.Context(), "NO", "ONE").Err())
	r.ready(http.StatusOK)
	if _, err := r.connect(token); err != nil {
		t.Error(err)
	}
	_, err = r.connect(token - 1)
	wantCode(t, err, "RF001")
	if answer := claimRedis(t, listen, token); answer != "+OK\r\n" {
		t.Errorf("a claim at the new primary: %s", answer)
	}
}
