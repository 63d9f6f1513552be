package cluster

import (
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/ringfence/ringfence/fence"
)

// stale is the refusal of a claim whose candidate is gone. Its token is never issued again.
func stale(c fence.Claim, leader *mvccpb.KeyValue) error {
	r := &fence.Refusal{
		Reason: fence.ErrStale, Claim: c,
		Message: fmt.Sprintf("stale token: the candidate of %s is gone from its election", c),
		Detail: "its lease has run out, or it was deposed or has resigned; " +
			leaderOf(c.Resource, leader) + "; nothing was changed",
		Hint: "this process no longer leads: stop, or campaign for a new token; " +
			"this one will never be taken again",
	}
	if leader != nil {
		r.Mark = Candidate(leader).Token
	}
	return r
}

// notLeader is the refusal of a claim that has not led yet.
func notLeader(c fence.Claim, leader *mvccpb.KeyValue, why string) error {
	return &fence.Refusal{
		Reason: fence.ErrNotLeader, Claim: c,
		Message: fmt.Sprintf("token %s does not lead %q", c.Token, c.Resource),
		Detail:  why + "; " + leaderOf(c.Resource, leader) + "; nothing was changed",
		Hint:    "present the token of a term that was won",
	}
}

// otherIssuer is the refusal of a claim of another coordinator, or of this one before it was
// rebuilt.
func (c *Client) otherIssuer(claim fence.Claim, issuer fence.Issuer) error {
	return &fence.Refusal{
		Reason: fence.ErrOtherIssuer, Claim: claim,
		Message: fmt.Sprintf("token %s of %q comes from another issuer than this etcd",
			claim.Token, claim.Resource),
		Detail: fmt.Sprintf("%s at %s is %s, the token comes from %s: "+
			"their numbers cannot be compared; nothing was changed", c.Prefix,
			c.Hosts, issuer, claim.Issuer),
		Hint: "campaign at the same etcd and prefix as this program; " +
			"if it was rebuilt, the token is worth nothing any more",
	}
}

func leaderOf(r fence.Resource, leader *mvccpb.KeyValue) string {
	if leader == nil {
		return fmt.Sprintf("nobody leads %q now", r)
	}
	c := Candidate(leader)
	return fmt.Sprintf("the leader of %q is %s with token %s", r, c.Holder, c.Token)
}
