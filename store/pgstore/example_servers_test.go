package pgstore_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// database starts a server for this example and installs the schema, as guard install does.
func database(ctx context.Context) (pool *pgxpool.Pool, url string) {
	server, err := serverstest.ExamplePostgres(ctx)
	if err != nil {
		log.Fatal(err)
	}
	url = server.URL("postgres", "postgres")
	if err := pgmarks.Install(ctx, url, "postgres"); err != nil {
		log.Fatal(err)
	}
	if pool, err = pgxpool.New(ctx, url); err != nil {
		log.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "create table account as select 100 as balance"); err != nil {
		log.Fatal(err)
	}
	return pool, url
}
