package zookeeper_test

import (
	"context"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/checkpoint/zookeeper"
	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/servers/serverstest"
)

// The znode of a waiting candidate exists, like the leader's, and has a higher czxid.
func TestAWaitingCandidateDoesNotPublish(t *testing.T) {
	b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
	j := b.journal(zookeeper.Options{})
	leader := b.lead(orders)
	ctx, cancel := context.WithCancel(t.Context())
	won := make(chan *fence.Term, 1)
	var campaign sync.WaitGroup
	campaign.Go(func() {
		term, _ := b.elector.Campaign(ctx, orders, "waiting")
		won <- term
	})
	defer campaign.Wait()
	defer cancel()
	waiting := leader
	waiting.Holder = "waiting"
	eventually(t, "the second waits", func() bool {
		queue, err := b.elector.Candidates(t.Context(), orders)
		if len(queue) == 2 {
			waiting.Token = queue[1].Token
		}
		return err == nil && len(queue) == 2
	})
	refused(t, j, waiting, fence.ErrNotLeader, checkpoint.Checkpoint{})
	first := version(1, leader)
	publish(t, j, leader, first)
	refused(t, j, waiting, fence.ErrNotLeader, first)

	b.depose(orders)
	if term := <-won; term == nil || term.Token() != waiting.Token {
		t.Fatalf("the second leads with %v, not as %v", term, waiting)
	}
	refused(t, j, leader, fence.ErrStale, first)
	second := version(2, waiting)
	publish(t, j, waiting, second)
	refused(t, j, leader, fence.ErrStale, second)
}

// No newer leader has written, but the token of the old one is stale for ever.
func TestADeposedLeaderWithoutASuccessorIsStale(t *testing.T) {
	b := newBench(t, serverstest.SharedZooKeeper(t).Addr())
	j, fresh := b.journal(zookeeper.Options{}), b.journal(zookeeper.Options{})
	c := b.lead(orders)
	first := version(1, c)
	publish(t, j, c, first)
	b.depose(orders)
	refused(t, j, c, fence.ErrStale, first)
	refused(t, fresh, c, fence.ErrStale, first) // a journal that has never seen it lead
	never := c
	never.Token += 1 << 40
	refused(t, j, never, fence.ErrNotLeader, first)
	elsewhere := c
	elsewhere.Resource = "stock" // without any candidate so far
	refused(t, j, elsewhere, fence.ErrNotLeader, first)
}
