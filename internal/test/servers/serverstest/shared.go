package serverstest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// shared is a server that the first test starts and RunMain closes.
type shared[S server] struct {
	name  string
	start func(context.Context) (S, error)

	mu      sync.Mutex
	started bool
	server  S
	err     error
}

var (
	sharedPostgres = &shared[*servers.Postgres]{
		name: "shared postgres",
		start: func(ctx context.Context) (*servers.Postgres, error) {
			return servers.StartPostgres(ctx, servers.PostgresOptions{})
		},
	}
	sharedRedis = &shared[*servers.Redis]{
		name: "shared redis",
		start: func(ctx context.Context) (*servers.Redis, error) {
			return servers.StartRedis(ctx, servers.RedisOptions{})
		},
	}
	sharedEtcd = &shared[*servers.Etcd]{
		name: "etcd", start: func(ctx context.Context) (*servers.Etcd, error) {
			return servers.StartEtcd(ctx, servers.EtcdOptions{})
		},
	}
	sharedZooKeeper = &shared[*servers.ZooKeeper]{
		name: "shared zookeeper",
		start: func(ctx context.Context) (*servers.ZooKeeper, error) {
			return servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{Nodes: 1})
		},
	}
)

// SharedPostgres returns the test binary's Postgres with default options; see [FreshDatabase].
func SharedPostgres(t testing.TB) *servers.Postgres { t.Helper(); return sharedPostgres.get(t) }

// SharedRedis returns the test binary's Redis with default options.
func SharedRedis(t testing.TB) *servers.Redis { t.Helper(); return sharedRedis.get(t) }

// SharedEtcd returns the test binary's etcd, one member with default options.
func SharedEtcd(t testing.TB) *servers.Etcd { t.Helper(); return sharedEtcd.get(t) }

// SharedZooKeeper returns the test binary's ZooKeeper, one node with default options.
func SharedZooKeeper(t testing.TB) *servers.ZooKeeper { t.Helper(); return sharedZooKeeper.get(t) }

// ExamplePostgres returns the test binary's Postgres for an example, which has no testing.TB.
func ExamplePostgres(ctx context.Context) (*servers.Postgres, error) {
	return sharedPostgres.serve(ctx)
}

// ExampleRedis returns the test binary's Redis for an example.
func ExampleRedis(ctx context.Context) (*servers.Redis, error) { return sharedRedis.serve(ctx) }

// ExampleEtcd returns the test binary's etcd for an example.
func ExampleEtcd(ctx context.Context) (*servers.Etcd, error) { return sharedEtcd.serve(ctx) }

// ExampleZooKeeper returns the test binary's ZooKeeper for an example.
func ExampleZooKeeper(ctx context.Context) (*servers.ZooKeeper, error) {
	return sharedZooKeeper.serve(ctx)
}

func (s *shared[S]) get(t testing.TB) S {
	t.Helper()
	skipShort(t)
	server, err := s.serve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logOnFailure(t, s.name, server) })
	return server
}

// serve starts the server unless it was started before. The end of ctx does not stop the start,
// because the server outlives the test. A failed start is not retried.
func (s *shared[S]) serve(ctx context.Context) (S, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.started = true
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
		defer cancel()
		s.server, s.err = s.start(ctx)
	}
	return s.server, s.err
}

func (s *shared[S]) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started || s.err != nil {
		return nil
	}
	return s.server.Close()
}

func closeShared() error {
	return errors.Join(sharedPostgres.close(), sharedRedis.close(), sharedZooKeeper.close(), sharedEtcd.close())
}
