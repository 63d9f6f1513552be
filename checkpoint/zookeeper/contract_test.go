package zookeeper_test

import (
	"errors"
	"os"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/checkpoint/zookeeper"
	"github.com/ringfence/ringfence/fence"
	elections "github.com/ringfence/ringfence/fence/zookeeper"
	"github.com/ringfence/ringfence/internal/journaltest"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(leaderEnv); url != "" {
		os.Exit(leadAnyway(url))
	}
	os.Exit(serverstest.RunMain(m))
}

func TestZooKeeperKeepsTheContract(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpointtest.Fixture {
		const limit = 200_000
		b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
		o := zookeeper.Options{Limit: limit, SessionTimeout: sessionTimeout}
		j := b.journal(o)
		return checkpointtest.Fixture{
			Journal: j, Second: b.journal(o), Limit: limit,
			Lead: func(t *testing.T, r fence.Resource) fence.Claim {
				c := b.Lead(r)
				if err := j.Raise(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				return c
			},
		}
	})
}

// hand edits checkpoints in an operator's connection.
type hand struct {
	*bench
	conn *zk.Conn
}

func (h hand) Put(task checkpoint.Name, data string) int64 {
	h.t.Helper()
	stat, err := h.conn.Set(h.path(task), []byte(data), -1)
	if errors.Is(err, zk.ErrNoNode) {
		stat = &zk.Stat{}
		_, err = h.conn.Create(h.path(task), []byte(data), 0, zk.WorldACL(zk.PermAll))
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return int64(stat.Version) + 1
}

func (h hand) Get(task checkpoint.Name) string {
	h.t.Helper()
	data, _, err := h.conn.Get(h.path(task))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(data)
}

func (h hand) Delete(task checkpoint.Name) {
	h.t.Helper()
	if err := h.conn.Delete(h.path(task), -1); err != nil {
		h.t.Fatal(err)
	}
}

func TestZooKeeperKeepsTheContractOfItsElections(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Fixture {
		b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
		return journaltest.Fixture{
			Leaders: b.Leaders, Hand: hand{b, b.hand()}, Closed: elections.ErrClosed,
			Open: func() journaltest.Journal { return b.journal(zookeeper.Options{}) },
		}
	})
}
