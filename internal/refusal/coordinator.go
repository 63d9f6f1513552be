package refusal

import (
	"fmt"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
)

// Gone refuses a claim whose candidate is gone from its election. leader leads now; zero: nobody.
func Gone(c fence.Claim, leader elector.Candidate) *fence.Refusal {
	return &fence.Refusal{
		Reason: fence.ErrStale, Claim: c, Mark: leader.Token,
		Message: fmt.Sprintf("stale token: the candidate of %s is gone from its election", c),
		Detail: "its session has ended, or it was deposed or has resigned; " +
			leads(c.Resource, leader) + "; nothing was changed",
		Hint: "this process no longer leads: stop, or campaign for a new token; " +
			"no retry with this one will succeed",
	}
}

// NotFirst refuses a claim that has not led yet. why says what it is instead, and may be empty.
func NotFirst(c fence.Claim, leader elector.Candidate, why string) *fence.Refusal {
	if why != "" {
		why += "; "
	}
	return &fence.Refusal{
		Reason: fence.ErrNotLeader, Claim: c,
		Message: fmt.Sprintf("token %s does not lead %q", c.Token, c.Resource),
		Detail:  why + leads(c.Resource, leader) + "; nothing was changed",
		Hint:    "wait until the term is won, then try again with this token",
	}
}

// OtherCoordinator refuses a claim of another coordinator, or of this one before it was rebuilt.
// kind names this one, and where says what it is, or is empty.
func OtherCoordinator(c fence.Claim, kind, where string) *fence.Refusal {
	if where != "" {
		where = fmt.Sprintf("%s, the token comes from %s: ", where, c.Issuer)
	}
	return &fence.Refusal{
		Reason: fence.ErrOtherIssuer, Claim: c,
		Message: fmt.Sprintf("token %s of %q comes from another issuer than this %s", c.Token, c.Resource,
			kind),
		Detail: where + "their numbers cannot be compared; nothing was changed",
		Hint: "campaign at the same " + kind + ", and the same place in it, as this program; " +
			"if it was rebuilt, campaign for a new token",
	}
}

func leads(r fence.Resource, leader elector.Candidate) string {
	if leader == (elector.Candidate{}) {
		return fmt.Sprintf("nobody leads %q now", r)
	}
	return fmt.Sprintf("the leader of %q is %s with token %s", r, leader.Holder, leader.Token)
}
