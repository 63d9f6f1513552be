package serverstest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/internal/servers"
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
	sharedZooKeeper = &shared[*servers.ZooKeeper]{
		name: "shared zookeeper",
		start: func(ctx context.Context) (*servers.ZooKeeper, error) {
			return servers.StartZooKeeper(ctx, servers.ZooKeeperOptions{Nodes: 1})
		},
	}
)

// SharedPostgres is the test binary's Postgres with default options; see [FreshDatabase].
func SharedPostgres(t testing.TB) *servers.Postgres { t.Helper(); return sharedPostgres.get(t) }

// SharedRedis is the test binary's Redis with default options.
func SharedRedis(t testing.TB) *servers.Redis { t.Helper(); return sharedRedis.get(t) }

// SharedZooKeeper is the test binary's ZooKeeper, one node with default options.
func SharedZooKeeper(t testing.TB) *servers.ZooKeeper { t.Helper(); return sharedZooKeeper.get(t) }

// get starts the server if no test has before. It does not use the test's
// context: the server outlives the test. A failed start is not tried again.
func (s *shared[S]) get(t testing.TB) S {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.started = true
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startLimit)
		defer cancel()
		s.server, s.err = s.start(ctx)
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	t.Cleanup(func() { logOnFailure(t, s.name, s.server) })
	return s.server
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
	return errors.Join(sharedPostgres.close(), sharedRedis.close(), sharedZooKeeper.close())
}
