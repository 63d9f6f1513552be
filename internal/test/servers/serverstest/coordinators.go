package serverstest

import (
	"strings"
	"testing"

	"github.com/ringfence/ringfence/internal/test/servers"
)

// Coordinator is a kind of server that elections are held in.
type Coordinator struct {
	// Shared returns the URL of elections for this test alone, in the server that all tests share.
	Shared func(t testing.TB) (url string)
	// Own starts a server for this test only.
	Own func(t testing.TB) (url string, server Pausable)
}

// Pausable is a server that a test may pause.
type Pausable interface {
	Pause() error
	Resume() error
}

// Coordinators are all of them, by name, for tests that run on each.
var Coordinators = map[string]Coordinator{
	"zookeeper": {
		func(t testing.TB) string { return "zk://" + SharedZooKeeper(t).Addr() + Folder(t) },
		func(t testing.TB) (string, Pausable) {
			zk := ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 1})
			return "zk://" + zk.Addr() + Folder(t), zk
		},
	},
	"etcd": {
		func(t testing.TB) string { return "etcd://" + SharedEtcd(t).Addr() + Folder(t) },
		func(t testing.TB) (string, Pausable) {
			etcd := Etcd(t, servers.EtcdOptions{})
			return "etcd://" + etcd.Addr() + Folder(t), etcd
		},
	},
	"postgres": {
		func(t testing.TB) string {
			pg := SharedPostgres(t)
			return pg.URL("postgres", FreshDatabase(t, pg))
		},
		func(t testing.TB) (string, Pausable) {
			pg := Postgres(t, servers.PostgresOptions{})
			return pg.URL("postgres", "postgres"), pg
		},
	},
}

// Folder is where the test's elections are.
func Folder(t testing.TB) string {
	return "/" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
}
