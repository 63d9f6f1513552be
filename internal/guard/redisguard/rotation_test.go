package redisguard

import (
	"context"
	"strings"
	"testing"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestNoAdmissionFailsWhileTheGuardsPasswordChanges(t *testing.T) {
	t.Parallel()
	server := serverstest.Redis(t, servers.RedisOptions{})
	admin := driverTo(t, server.Addr(), nil)
	do := func(args ...any) {
		if err := admin.Do(t.Context(), args...).Err(); err != nil && err != driver.Nil {
			t.Error(err)
		}
	}
	r := guardtest.NewRotation(t)
	var rule []any
	for word := range strings.FieldsSeq(redismarks.ACL("guard", guardtest.Password(0))) {
		rule = append(rule, word)
	}
	do(rule...)
	r.Server = func(password string) { do("ACL", "SETUSER", "guard", "resetpass", ">"+password) }
	r.Break = func() { do("CLIENT", "KILL", "USER", "guard") }
	g := before(t, server, setup{url: r.URL("redis://guard@" + server.Addr())})
	r.Open = func(ctx context.Context, t *testing.T) error {
		c := driver.NewClient(&driver.Options{Addr: g.Addr, MaxRetries: -1, ContextTimeoutEnabled: true,
			ReadTimeout: -1, WriteTimeout: -1, PoolSize: 1})
		defer c.Close()
		return c.Do(ctx, "FENCE", "orders", "1").Err()
	}
	for i, order := range []string{"the file first", "the server first"} {
		t.Run(order, func(t *testing.T) { r.Run(t, 1000*(i+1), order == "the server first") })
	}
}
