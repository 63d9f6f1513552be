package election

import (
	"fmt"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
	"github.com/ringfence/ringfence/internal/refusal"
)

// stale is the refusal of a claim whose candidate is gone.
func stale(c fence.Claim, queue []Entry) error {
	return refusal.Gone(c, first(queue), "session has expired")
}

// notLeader is the refusal of a claim at position i of the queue, from 0. If i is below 0, the
// claim is not in the queue.
func notLeader(c fence.Claim, queue []Entry, i int) error {
	why := "it was never enrolled in this election"
	if i > 0 {
		why = fmt.Sprintf("%s waits in place %d of the queue", queue[i].Holder, i+1)
	}
	return refusal.NotElected(c, first(queue), why)
}

// otherIssuer is the refusal of a claim of another coordinator.
func otherIssuer(client *ensemble.Client, claim fence.Claim, issuer fence.Issuer) error {
	return refusal.OtherCoordinator(claim, "ZooKeeper", "ZooKeeper and root",
		fmt.Sprintf("%s at %s is %s", client.Root(), client.Hosts(), issuer))
}

// first is who leads a queue.
func first(queue []Entry) fence.Candidate {
	if len(queue) == 0 {
		return fence.Candidate{}
	}
	return fence.Candidate{Token: queue[0].Token, Holder: queue[0].Holder}
}
