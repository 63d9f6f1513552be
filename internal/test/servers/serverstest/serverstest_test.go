package serverstest_test

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

func TestMain(m *testing.M) { os.Exit(serverstest.RunMain(m)) }

func TestSharedServersAreStartedOnce(t *testing.T) {
	if a, b := serverstest.SharedPostgres(t), serverstest.SharedPostgres(t); a != b {
		t.Error("two of Postgres")
	}
	if a, b := serverstest.SharedRedis(t), serverstest.SharedRedis(t); a != b {
		t.Error("two of Redis")
	}
	if a, b := serverstest.SharedZooKeeper(t), serverstest.SharedZooKeeper(t); a != b {
		t.Error("two of ZooKeeper")
	}
}

func TestFreshDatabasesAreSeparateAndDropped(t *testing.T) {
	pg := serverstest.SharedPostgres(t)
	var names []string
	t.Run("inner", func(t *testing.T) {
		for range 2 {
			name := serverstest.FreshDatabase(t, pg)
			c, err := pgx.Connect(t.Context(), pg.URL("postgres", name))
			if err != nil {
				t.Fatal(err)
			}
			// Open until the test binary ends or the drop ends the session.
			if _, err := c.Exec(t.Context(), "create table mine()"); err != nil {
				t.Error(err)
			}
			names = append(names, name)
		}
	})
	for _, name := range names {
		if c, err := pgx.Connect(t.Context(), pg.URL("postgres", name)); err == nil {
			t.Error("not dropped:", name)
			_ = c.Close(t.Context())
		}
	}
}

func TestOwnServersAreClosedAfterTheirTest(t *testing.T) {
	var dirs []string
	t.Run("inner", func(t *testing.T) {
		pg := serverstest.Postgres(t, servers.PostgresOptions{})
		dirs = append(dirs, pg.Dir(), serverstest.PgBouncer(t, pg, servers.PgBouncerOptions{}).Dir(),
			serverstest.Redis(t, servers.RedisOptions{}).Dir(),
			serverstest.ZooKeeper(t, servers.ZooKeeperOptions{}).Nodes[0].Dir())
	})
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Error("still there:", dir)
		}
	}
}

// BenchmarkFreshDatabase measures the cost of a test's own database.
func BenchmarkFreshDatabase(b *testing.B) {
	pg := serverstest.SharedPostgres(b)
	for b.Loop() {
		serverstest.FreshDatabase(b, pg)
	}
}
