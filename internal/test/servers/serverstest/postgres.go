package serverstest

import (
	"context"
	"maps"
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// Postgres starts a server for this test only, without fsync.
func Postgres(t testing.TB, o servers.PostgresOptions) *servers.Postgres {
	t.Helper()
	return own(t, "postgres", func(ctx context.Context) (*servers.Postgres, error) {
		return startPostgres(ctx, o)
	})
}

// startPostgres starts a server without fsync: tests kill processes and no machines, so the kernel
// keeps what was written.
func startPostgres(ctx context.Context, o servers.PostgresOptions) (*servers.Postgres, error) {
	settings := map[string]string{"fsync": "off"}
	maps.Copy(settings, o.Settings)
	o.Settings = settings
	return servers.StartPostgres(ctx, o)
}

var sharedPostgres = newShared("postgres", func(ctx context.Context) (*servers.Postgres, error) {
	return startPostgres(ctx, servers.PostgresOptions{})
})

// SharedPostgres returns the test binary's Postgres with default options; see [FreshDatabase].
func SharedPostgres(t testing.TB) *servers.Postgres { t.Helper(); return sharedPostgres.get(t) }

// ExamplePostgres returns the test binary's Postgres for an example, which has no testing.TB.
func ExamplePostgres(ctx context.Context) (*servers.Postgres, error) {
	return sharedPostgres.serve(ctx)
}
