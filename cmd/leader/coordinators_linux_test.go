package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ringfence/ringfence/internal/program/cli"
	"github.com/ringfence/ringfence/internal/test/leadertest"
	"github.com/ringfence/ringfence/internal/test/servers"
	"github.com/ringfence/ringfence/internal/test/servers/serverstest"
)

// longerThanPatience is a session timeout that no test outlives, so nothing that happens has waited
// for it.
const longerThanPatience = leadertest.Patience + 10*time.Second

// pausable is a server that a test may pause.
type pausable interface {
	Pause() error
	Resume() error
}

// everyCoordinator returns URLs for the elections of one test: in a server that all tests share,
// and in one that the test may pause.
var everyCoordinator = map[string]struct {
	shared func(*testing.T) (url string)
	own    func(*testing.T) (url string, server pausable)
}{
	"zookeeper": {
		func(t *testing.T) string { return "zk://" + serverstest.SharedZooKeeper(t).Addr() + root(t) },
		func(t *testing.T) (string, pausable) {
			zk := serverstest.ZooKeeper(t, servers.ZooKeeperOptions{Nodes: 1})
			return "zk://" + zk.Addr() + root(t), zk
		},
	},
	"etcd": {
		func(t *testing.T) string { return "etcd://" + serverstest.SharedEtcd(t).Addr() + root(t) },
		func(t *testing.T) (string, pausable) {
			etcd := serverstest.Etcd(t, servers.EtcdOptions{})
			return "etcd://" + etcd.Addr() + root(t), etcd
		},
	},
	"postgres": {
		func(t *testing.T) string {
			pg := serverstest.SharedPostgres(t)
			return pg.URL("postgres", serverstest.FreshDatabase(t, pg))
		},
		func(t *testing.T) (string, pausable) {
			pg := serverstest.Postgres(t, servers.PostgresOptions{})
			return pg.URL("postgres", "postgres"), pg
		},
	},
}

// root is where the test's elections are.
func root(t *testing.T) string {
	return "/" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
}

// onEveryCoordinator runs a test on each coordinator.
func onEveryCoordinator(
	timeout time.Duration, test func(*testing.T, *site),
) func(*testing.T, string) {
	return func(t *testing.T, program string) {
		for name, coordinator := range everyCoordinator {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, siteAt(t, program, coordinator.shared(t), timeout))
			})
		}
	}
}

func testCoordinatorPaused(t *testing.T, program string) {
	for name, coordinator := range everyCoordinator {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, server := coordinator.own(t)
			s := siteAt(t, program, url, 20*time.Second) // long enough to resume it in time
			l := s.sleeper()
			pid := l.pid("pid")
			if err := server.Pause(); err != nil {
				t.Fatal(err)
			}
			leadertest.Eventually(t, "the command is paused", func() bool {
				return leadertest.Halted(pid)
			})
			if err := server.Resume(); err != nil {
				t.Fatal(err)
			}
			leadertest.Eventually(t, "the command continues", func() bool {
				return !leadertest.Halted(pid)
			})
			if !leadertest.Alive(pid) {
				t.Error("it was ended instead")
			}
		})
	}
}

func testNoCoordinator(t *testing.T, program string) {
	for _, scheme := range []string{"zk", "etcd", "etcds", "postgres"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			s := &site{t: t, program: program, env: []string{
				"PATH=" + os.Getenv("PATH"), "LEADER_COORDINATOR=" + scheme + "://u:s3cr3t@127.0.0.1:1/x",
				"LEADER_SESSION_TIMEOUT=2s",
			}}
			for _, args := range [][]string{
				{"status", "orders"}, {"watch", "orders"}, {"resign", "orders"},
				{"run", "orders", "--", "true"},
			} {
				l := s.start(args...)
				l.exits(cli.Error)
				if l.out.String() != "" || !strings.Contains(l.log.String(), "127.0.0.1:1") ||
					strings.Contains(l.log.String(), "s3cr3t") {
					t.Errorf("%v: stdout %q, stderr %q", args, l.out, l.log)
				}
			}
		})
	}
}
