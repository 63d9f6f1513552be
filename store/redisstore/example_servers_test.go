package redisstore_test

import (
	"context"
	"log"

	driver "github.com/redis/go-redis/v9"

	"github.com/ringfence/ringfence/internal/marks/redismarks"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// cache starts an empty server for this example and installs the marker key, as guard install does.
func cache(ctx context.Context) (db *driver.Client, url string) {
	server, err := serverstest.ExampleRedis(ctx)
	if err != nil {
		log.Fatal(err)
	}
	db = driver.NewClient(&driver.Options{Addr: server.Addr()})
	if err := db.FlushAll(ctx).Err(); err != nil {
		log.Fatal(err)
	}
	if err := redismarks.Install(ctx, server.URL()); err != nil {
		log.Fatal(err)
	}
	return db, server.URL()
}
