package marks

import (
	"errors"
	"fmt"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Stale is the refusal of a claim below the mark.
func Stale(c fence.Claim, m Mark) error {
	return &fence.Refusal{
		Reason: fence.ReasonStale, Claim: c, Mark: m.Token,
		Message: fmt.Sprintf("stale token: %s is older than the mark %s of %q", c.Token, m.Token, c.Resource),
		Detail:  newer(m) + "; nothing that this session had not committed before then is written",
		Hint:    "this process no longer leads: stop, or campaign for a new token; this one will never be taken again",
	}
}

// newer tells who holds a mark, and since when.
func newer(m Mark) string {
	holder := m.Holder
	if holder == "" {
		holder = "a newer leader"
	}
	return fmt.Sprintf("%s has led %q since %s", holder, m.Resource, m.Raised.UTC().Format(time.RFC3339))
}

// Foreign is the refusal of a claim whose issuer is not the mark's.
func Foreign(c fence.Claim, m Mark) error {
	return &fence.Refusal{
		Reason: fence.ReasonOtherIssuer, Claim: c, Mark: m.Token,
		Message: fmt.Sprintf("token %s of %q comes from another issuer than the mark %s", c.Token, c.Resource, m.Token),
		Detail:  fmt.Sprintf("the mark was raised under %s, the token comes from %s: their numbers cannot be compared", m.Issuer, c.Issuer),
		Hint:    fmt.Sprintf("if the coordinator was rebuilt or replaced, and no older leader runs, an operator runs: guard adopt %s", c.Resource),
	}
}

// SetBack is the refusal of a token that leads at the coordinator and is below the mark all the same.
func SetBack(c fence.Claim, m Mark) error {
	return &fence.Refusal{
		Reason: fence.ReasonOtherIssuer, Claim: c, Mark: m.Token,
		Message: fmt.Sprintf("the coordinator went back: token %s leads %q, and the mark is already %s", c.Token, c.Resource, m.Token),
		Detail:  "its counter is behind what it has given out before, as after a restore from a backup; nothing was admitted",
		Hint:    fmt.Sprintf("an operator stops all leaders, paused ones too, and runs: guard adopt --new-issuer %s", c.Resource),
	}
}

// NotInstalled is the refusal of a store without our schema, or without the one this version needs.
func NotInstalled(detail string, cause error) error {
	return &fence.Refusal{
		Reason: fence.ReasonNotInstalled, Cause: cause,
		Message: "ringfence is not installed in this store",
		Detail:  detail,
		Hint:    "an operator runs: guard install",
	}
}

// Unrevoked is the refusal of a newcomer whose predecessors could not be ended.
func Unrevoked(c fence.Claim, detail string, cause error) error {
	return &fence.Refusal{
		Reason: fence.ReasonUnrevoked, Claim: c, Mark: c.Token, Cause: cause,
		Message: fmt.Sprintf("older sessions of %q could not be ended in time", c.Resource),
		Detail:  detail,
		Hint:    "the mark stays raised and nobody is admitted: end those sessions in the database, then try again with the same token",
	}
}

// met adds the mark that a refused claim met.
func met(err error, m Mark) error {
	var r *fence.Refusal
	if errors.As(err, &r) && r.Claim.Resource == m.Resource && r.Mark == 0 {
		r.Mark = m.Token
	}
	return err
}

// Setup makes a fence.SetupError: what is wrong, and what to do about it.
func Setup(what, hint string) error { return &fence.SetupError{What: what, Hint: hint} }
