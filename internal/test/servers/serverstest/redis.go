package serverstest

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// Redis starts a server for this test only.
func Redis(t testing.TB, o servers.RedisOptions) *servers.Redis {
	t.Helper()
	return own(t, "redis", func(ctx context.Context) (*servers.Redis, error) {
		return servers.StartRedis(ctx, o)
	})
}

// Sentinel starts a Sentinel for this test only.
func Sentinel(t testing.TB, o servers.SentinelOptions) *servers.Sentinel {
	t.Helper()
	return own(t, "sentinel", func(ctx context.Context) (*servers.Sentinel, error) {
		return servers.StartSentinel(ctx, o)
	})
}

var sharedRedis = newShared("redis", func(ctx context.Context) (*servers.Redis, error) {
	return servers.StartRedis(ctx, servers.RedisOptions{})
})

// SharedRedis returns the test binary's Redis with default options.
func SharedRedis(t testing.TB) *servers.Redis { t.Helper(); return sharedRedis.get(t) }

// ExampleRedis returns the test binary's Redis for an example, which has no testing.TB.
func ExampleRedis(ctx context.Context) (*servers.Redis, error) { return sharedRedis.serve(ctx) }
