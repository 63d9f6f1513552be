package serverstest

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// Postgres starts a server for this test only.
func Postgres(t testing.TB, o servers.PostgresOptions) *servers.Postgres {
	t.Helper()
	return own(t, "postgres", func(ctx context.Context) (*servers.Postgres, error) {
		return servers.StartPostgres(ctx, o)
	})
}

var sharedPostgres = newShared("postgres", func(ctx context.Context) (*servers.Postgres, error) {
	return servers.StartPostgres(ctx, servers.PostgresOptions{})
})

// SharedPostgres returns the test binary's Postgres with default options; see [FreshDatabase].
func SharedPostgres(t testing.TB) *servers.Postgres { t.Helper(); return sharedPostgres.get(t) }

// ExamplePostgres returns the test binary's Postgres for an example, which has no testing.TB.
func ExamplePostgres(ctx context.Context) (*servers.Postgres, error) {
	return sharedPostgres.serve(ctx)
}
