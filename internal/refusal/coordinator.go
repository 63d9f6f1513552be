package refusal

import (
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// What a coordinator says about the claim of a change of documents. Nothing was changed then. leader is
// who leads; the zero Candidate if nobody does.

// Gone refuses a claim whose candidate is no longer in its election. Its token is never issued again.
// ended is how a candidate ends by itself.
func Gone(c fence.Claim, leader fence.Candidate, ended string) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrStale, Claim: c, Mark: leader.Token,
		Message: fmt.Sprintf("stale token: the candidate of %s is gone from its election", c),
		Detail: fmt.Sprintf("its %s, or it was deposed or has resigned; %s; nothing was changed",
			ended, leads(c.Resource, leader)),
		Hint: noLongerLeads,
	}
}

// NotElected refuses a claim that does not lead yet, for this reason.
func NotElected(c fence.Claim, leader fence.Candidate, why string) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrNotLeader, Claim: c,
		Message: fmt.Sprintf("token %s does not lead %q", c.Token, c.Resource),
		Detail:  fmt.Sprintf("%s; %s; nothing was changed", why, leads(c.Resource, leader)),
		Hint:    "present the token of a term that was won",
	}
}

// OtherCoordinator refuses a claim of another coordinator, or of this one before it was rebuilt. kind and
// place are words for it, such as "etcd" and "etcd and prefix"; own says which one this is, or is empty.
func OtherCoordinator(c fence.Claim, kind, place, own string) *fence.Refusal {
	if own != "" {
		own += ", "
	}
	return &fence.Refusal{
		Reason: fence.ErrOtherIssuer, Claim: c,
		Message: fmt.Sprintf("token %s of %q comes from another issuer than this %s", c.Token, c.Resource, kind),
		Detail: fmt.Sprintf("%sthe token comes from %s: their numbers cannot be compared; "+
			"nothing was changed", own, c.Issuer),
		Hint: fmt.Sprintf("campaign at the same %s as this program; "+
			"if it was rebuilt, the token is worth nothing any more", place),
	}
}

// leads says who leads.
func leads(r fence.Resource, leader fence.Candidate) string {
	if leader.Token == 0 {
		return fmt.Sprintf("nobody leads %q now", r)
	}
	return fmt.Sprintf("the leader of %q is %s with token %s", r, leader.Holder, leader.Token)
}
