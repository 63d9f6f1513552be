package pgguard

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/guard/guardtest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// checksGuard is a pg_hba.conf that asks only the guard's role for a password.
const checksGuard = `local all all trust
host all guard_role 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
`

func TestNoAdmissionFailsWhileTheGuardsPasswordChanges(t *testing.T) {
	t.Parallel()
	pg := serverstest.Postgres(t, servers.PostgresOptions{HBA: checksGuard})
	database := prepared(t, pg, serverstest.FreshDatabase(t, pg))
	admin := connect(t, pg.URL("postgres", database))
	do := func(statement string) {
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Error(err)
		}
	}
	r := guardtest.NewRotation(t)
	r.Server = func(password string) { do("alter role guard_role password '" + password + "'") }
	r.Break = func() {
		do("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'guard_role'")
	}
	r.Server(guardtest.Password(0))
	g := guardBefore(t, pg, database, setup{control: r.URL(pg.URL("guard_role", database))})
	r.Open = func(ctx context.Context, t *testing.T) error {
		c, err := pgx.Connect(ctx, g.url("app", 1))
		if err != nil {
			return err
		}
		return c.Close(ctx)
	}
	for i, order := range []string{"the file first", "the server first"} {
		t.Run(order, func(t *testing.T) { r.Run(t, 1000*(i+1), order == "the server first") })
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}
