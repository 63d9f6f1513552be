package zookeeper_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/marks/pgmarks"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// servers starts a ZooKeeper, and a Postgres with the schema that guard install makes.
func servers(ctx context.Context) (ensemble, database string) {
	zk, err := serverstest.ExampleZooKeeper(ctx)
	if err != nil {
		log.Fatal(err)
	}
	pg, err := serverstest.ExamplePostgres(ctx)
	if err != nil {
		log.Fatal(err)
	}
	database = pg.URL("postgres", "postgres")
	if err := pgmarks.Install(ctx, database, "postgres"); err != nil {
		log.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "create table account as select 100 as balance"); err != nil {
		log.Fatal(err)
	}
	return "zk://" + zk.Addr() + "/example", database
}
