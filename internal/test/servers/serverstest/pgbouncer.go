package serverstest

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// PgBouncer starts a pooler in front of the upstream for this test only.
func PgBouncer(
	t testing.TB, upstream *servers.Postgres, o servers.PgBouncerOptions,
) *servers.PgBouncer {
	t.Helper()
	return own(t, "pgbouncer", func(ctx context.Context) (*servers.PgBouncer, error) {
		return servers.StartPgBouncer(ctx, upstream, o)
	})
}
