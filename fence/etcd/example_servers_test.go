package etcd_test

import (
	"context"
	"log"

	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// cluster starts an etcd for this example.
func cluster(ctx context.Context) (url string) {
	server, err := serverstest.ExampleEtcd(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return "etcd://" + server.Addr() + "/example"
}
