package serverstest

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// ZooKeeper starts an ensemble for this test only, without fsync.
func ZooKeeper(t testing.TB, o servers.ZooKeeperOptions) *servers.ZooKeeper {
	t.Helper()
	return own(t, "zookeeper", func(ctx context.Context) (*servers.ZooKeeper, error) {
		return startZooKeeper(ctx, o)
	})
}

// startZooKeeper starts an ensemble without fsync, as startPostgres does.
func startZooKeeper(ctx context.Context, o servers.ZooKeeperOptions) (*servers.ZooKeeper, error) {
	o.Java = append([]string{"-Dzookeeper.forceSync=no"}, o.Java...)
	return servers.StartZooKeeper(ctx, o)
}

var sharedZooKeeper = newShared("zookeeper", func(ctx context.Context) (*servers.ZooKeeper, error) {
	return startZooKeeper(ctx, servers.ZooKeeperOptions{Nodes: 1})
})

// SharedZooKeeper returns the test binary's ZooKeeper, one node with default options.
func SharedZooKeeper(t testing.TB) *servers.ZooKeeper { t.Helper(); return sharedZooKeeper.get(t) }

// ExampleZooKeeper returns the test binary's ZooKeeper for an example, which has no testing.TB.
func ExampleZooKeeper(ctx context.Context) (*servers.ZooKeeper, error) {
	return sharedZooKeeper.serve(ctx)
}
