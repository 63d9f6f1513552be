package flaw

import (
	"context"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// apart checks the mark at login and records no session, so none is ended when the mark rises. It
// stands for "check that you still lead, then write": a leader that is paused in between writes
// when it wakes up.
type apart struct{ marks.Store }

// Register compares the claims with the present marks.
func (a *apart) Register(
	ctx context.Context, _ marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	for _, c := range claims {
		m := marks.Mark{Resource: c.Resource, Confirmed: true}
		found, err := a.Marks(ctx, c.Resource)
		if err != nil {
			return marks.Registration{}, err
		}
		for _, one := range found {
			m = one
		}
		if st, err := compare(c, m); err != nil || st.Next != marks.Admitted {
			return st, err
		}
	}
	return marks.Registration{Next: marks.Admitted}, nil
}

// Revoke ends no session.
func (a *apart) Revoke(context.Context, marks.SessionID, fence.Claim) (int, error) { return 0, nil }

// compare correctly compares a claim with a mark.
func compare(c fence.Claim, m marks.Mark) (marks.Registration, error) {
	st := marks.Registration{Claim: c, Mark: m}
	switch higher := c.Token.Compare(m.Token); {
	case m.Token != 0 && m.Issuer != c.Issuer:
		return st, refusal.OtherIssuer(c, m.Token, m.Issuer)
	case higher < 0:
		return st, refusal.Stale(c, m.Token, m.Holder, m.Raised)
	case higher > 0 || !m.Confirmed:
		st.Next = marks.MustRaise
	}
	return st, nil
}
