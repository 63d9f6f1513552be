package election

import (
	"fmt"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/ensemble"
)

// stale is the refusal of a claim whose candidate is gone. Its token is never issued again.
func stale(c fence.Claim, queue []Entry) error {
	r := &fence.Refusal{
		Reason: fence.ErrStale, Claim: c,
		Message: fmt.Sprintf("stale token: the candidate of %s is gone from its election", c),
		Detail: "its session has expired, or it was deposed or has resigned; " +
			leaderOf(c.Resource, queue) + "; nothing was changed",
		Hint: "this process no longer leads: stop, or campaign for a new token; " +
			"this one will never be taken again",
	}
	if len(queue) > 0 {
		r.Mark = queue[0].Token
	}
	return r
}

// notLeader is the refusal of a claim at position i of the queue, from 0. If i is below 0, the
// claim is not in the queue.
func notLeader(c fence.Claim, queue []Entry, i int) error {
	place := "it was never enrolled in this election"
	if i > 0 {
		place = fmt.Sprintf("%s waits in place %d of the queue", queue[i].Holder, i+1)
	}
	return &fence.Refusal{
		Reason: fence.ErrNotLeader, Claim: c,
		Message: fmt.Sprintf("token %s does not lead %q", c.Token, c.Resource),
		Detail:  place + "; " + leaderOf(c.Resource, queue) + "; nothing was changed",
		Hint:    "present the token of a term that was won",
	}
}

// otherIssuer is the refusal of a claim of another coordinator, or of this one before it was
// rebuilt.
func otherIssuer(client *ensemble.Client, claim fence.Claim, issuer fence.Issuer) error {
	return &fence.Refusal{
		Reason: fence.ErrOtherIssuer, Claim: claim,
		Message: fmt.Sprintf("token %s of %q comes from another issuer than this ZooKeeper",
			claim.Token, claim.Resource),
		Detail: fmt.Sprintf("%s at %s is %s, the token comes from %s: "+
			"their numbers cannot be compared; nothing was changed", client.Root(),
			client.Hosts(), issuer, claim.Issuer),
		Hint: "campaign at the same ZooKeeper and root as this program; " +
			"if it was rebuilt, the token is worth nothing any more",
	}
}

func leaderOf(r fence.Resource, queue []Entry) string {
	if len(queue) == 0 {
		return fmt.Sprintf("nobody leads %q now", r)
	}
	return fmt.Sprintf("the leader of %q is %s with token %s", r, queue[0].Holder, queue[0].Token)
}
