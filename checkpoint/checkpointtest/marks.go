package checkpointtest

import (
	"fmt"

	"github.com/ringfence/ringfence/fence"
)

// admit returns nil if the claim is the mark. The caller holds mu.
func (m *Memory) admit(c fence.Claim) error {
	mark, raised := m.marks[c.Resource]
	switch {
	case raised && mark.Issuer != c.Issuer:
		return refuse(fence.ErrOtherIssuer, c, mark,
			"ask an operator which coordinator counts for this journal")
	case raised && c.Token < mark.Token:
		return refuse(fence.ErrStale, c, mark, "stop: a newer leader is at work")
	case !raised || c.Token > mark.Token:
		return refuse(fence.ErrNotRaised, c, mark, "raise the mark to this claim, then try again")
	}
	return nil
}

func refuse(why fence.Reason, c, mark fence.Claim, hint string) error {
	return &fence.Refusal{
		Reason: why, Claim: c, Mark: mark.Token, Hint: hint,
		Message: fmt.Sprintf("claim %s of issuer %s was refused (%s)", c, c.Issuer, why),
		Detail: fmt.Sprintf("the mark is %s of issuer %s, raised by %s; nothing was changed",
			mark.Token, mark.Issuer, mark.Holder),
	}
}
