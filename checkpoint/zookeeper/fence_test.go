package zookeeper_test

import (
	"testing"

	"github.com/ringfence/ringfence/checkpoint/zookeeper"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// The election has no znode yet.
func TestAClaimOfAnElectionThatNobodyEnteredDoesNotLead(t *testing.T) {
	b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
	j := b.journal(zookeeper.Options{})
	c := b.Lead(orders)
	first := version(1, c)
	publish(t, j, c, first)
	b.Depose(orders)
	elsewhere := c
	elsewhere.Resource = "stock"
	refused(t, j, elsewhere, fence.ErrNotLeader, first)
}
