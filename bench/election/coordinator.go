package election

import (
	"context"
	"io"
	"time"

	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/coordinators"
	"github.com/ringfence/ringfence/internal/settings"
)

// entry is a coordinator in the benchmark.
type entry struct {
	name  string
	quiet time.Duration // until the counters of the server are up to date
	note  string
	start func(ctx context.Context) (server, error)
}

var entries = []entry{
	{"zookeeper", 2 * time.Second, zooKeeperNote, startZooKeeper},
	{"etcd", 2 * time.Second, etcdNote, startEtcd},
	// A connection of Postgres that is idle may keep its counts to itself for 10 s.
	{"postgres", 12 * time.Second, postgresNote, startPostgres},
}

func allNames() (names []string) {
	for _, e := range entries {
		names = append(names, e.name)
	}
	return names
}

// server is a server that runs for the benchmark alone, with its counters.
type server interface {
	version(ctx context.Context) (string, error)
	address() string
	url(address string) string // of elections, by way of an address

	// requests is how many the server has had since its start.
	requests(ctx context.Context) (int, error)

	state(ctx context.Context) (state, error)

	// notices counts the notices of a death that the server sends to clients, until the returned
	// function is called. It does not count those to the client that has died.
	notices(ctx context.Context) (count func() (int, error), err error)
	io.Closer
}

// state is what a server has at a moment.
type state struct {
	candidates  int // and a constant
	sessions    int
	connections int // 0 where the server does not say
}

// open opens a coordinator for elections.
func open(ctx context.Context, url string, timeout time.Duration) (elector.Coordinator, error) {
	return coordinators.All.Open(ctx, settings.URL(url), coordinators.Options{SessionTimeout: timeout})
}
