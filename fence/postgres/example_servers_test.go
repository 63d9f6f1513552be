package postgres_test

import (
	"context"
	"log"

	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// database starts a server for this example.
func database(ctx context.Context) (url string) {
	server, err := serverstest.ExamplePostgres(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return server.URL("postgres", "postgres")
}
