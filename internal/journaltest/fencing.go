package journaltest

import (
	"context"
	"sync"
	"testing"

	"github.com/ringfence/ringfence/checkpoint"
	"github.com/ringfence/ringfence/fence"
)

// The candidate that waits exists, like the leader's, and has a higher token.
func waitingCandidate(t *testing.T, f Fixture) {
	j := f.Open()
	leader := f.Lead(Orders)
	ctx, cancel := context.WithCancel(t.Context())
	won := make(chan *fence.Term, 1)
	var campaign sync.WaitGroup
	campaign.Go(func() {
		term, _ := f.Elector.Campaign(ctx, Orders, "waiting")
		won <- term
	})
	defer campaign.Wait()
	defer cancel()
	waiting := leader
	waiting.Holder = "waiting"
	Eventually(t, "the second waits", func() bool {
		queue, err := f.Elector.Candidates(t.Context(), Orders)
		if len(queue) == 2 {
			waiting.Token, waiting.Candidate = queue[1].Token, queue[1].ID
		}
		return err == nil && len(queue) == 2
	})
	Refused(t, j, waiting, fence.ErrNotLeader, checkpoint.Checkpoint{})
	first := Version(1, leader)
	Publish(t, j, leader, first)
	Refused(t, j, waiting, fence.ErrNotLeader, first)

	f.Depose(Orders)
	if term := <-won; term == nil || term.Token() != waiting.Token {
		t.Fatalf("the second leads with %v, not as %v", term, waiting)
	}
	Refused(t, j, leader, fence.ErrStale, first)
	second := Version(2, waiting)
	Publish(t, j, waiting, second)
	Refused(t, j, leader, fence.ErrStale, second)
}

// No newer leader has written, but the token of the old one is stale for ever.
func deposedLeader(t *testing.T, f Fixture) {
	j, fresh := f.Open(), f.Open()
	c := f.Lead(Orders)
	first := Version(1, c)
	Publish(t, j, c, first)
	f.Depose(Orders)
	Refused(t, j, c, fence.ErrStale, first)
	Refused(t, fresh, c, fence.ErrStale, first) // a journal that has never seen it lead
	never := c
	never.Token += 1 << 40
	Refused(t, j, never, fence.ErrNotLeader, first)
}
