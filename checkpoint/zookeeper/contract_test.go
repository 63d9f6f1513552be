package zookeeper_test

import (
	"os"
	"testing"

	"github.com/ringfence/ringfence/checkpoint/checkpointtest"
	"github.com/ringfence/ringfence/checkpoint/zookeeper"
	"github.com/ringfence/ringfence/fence"
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
				c := b.lead(r)
				if err := j.Raise(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				return c
			},
		}
	})
}
