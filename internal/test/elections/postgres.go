package elections

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func sharedPostgres(t testing.TB) string {
	pg := serverstest.SharedPostgres(t)
	return pg.URL("postgres", serverstest.FreshDatabase(t, pg))
}

func ownPostgres(t testing.TB) (string, Pausable) {
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	return pg.URL("postgres", "postgres"), pg
}

func failingPostgres(t testing.TB) Failing {
	pg := serverstest.Postgres(t, servers.PostgresOptions{})
	execute := func(sql string) {
		conn, err := pgx.Connect(context.WithoutCancel(t.Context()), pg.URL("postgres", "postgres"))
		if err == nil {
			_, err = conn.Exec(context.WithoutCancel(t.Context()), sql)
			_ = conn.Close(context.WithoutCancel(t.Context()))
		}
		if err != nil {
			t.Error(err)
		}
	}
	execute("create role elections login; grant create on database postgres to elections")
	return Failing{pg.Addr(), func(relay string) string {
		return "postgres://elections@" + relay + "/postgres?sslmode=disable"
	}, func(yes bool) {
		if yes {
			execute("revoke all on schema ringfence from elections, public")
		} else {
			execute("grant usage on schema ringfence to elections, public")
		}
	}}
}
