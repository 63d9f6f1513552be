package marks

import (
	"errors"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// stale refuses a claim that is Below a mark.
func stale(c fence.Claim, m Mark) error {
	switch {
	case m.Token == c.Token:
		return refusal.RolledBack(c, m.Token)
	case m.Lost:
		return refusal.Lost(c, m.Token, m.Holder, m.Raised)
	}
	return refusal.Stale(c, m.Token, m.Holder, m.Raised)
}

// withMark adds the mark to the refusal of a claim.
func withMark(err error, m Mark) error {
	if r, ok := errors.AsType[*fence.Refusal](err); ok && r.Claim.Resource == m.Resource &&
		r.Mark == 0 {
		r.Mark = m.Token
	}
	return err
}
