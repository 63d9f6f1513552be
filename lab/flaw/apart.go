package flaw

import (
	"context"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/store"
)

// apart checks the mark at login and records nobody, so nobody is ended when the mark rises. It stands for "check that you
// still lead, then write": whoever is paused in between writes when it wakes up.
type apart struct{ store.Store }

// Register compares with the marks as they are now.
func (a *apart) Register(ctx context.Context, _ store.Session, claims []fence.Claim) (store.Standing, error) {
	for _, c := range claims {
		m := store.Mark{Resource: c.Resource, Confirmed: true}
		marks, err := a.Marks(ctx, c.Resource)
		if err != nil {
			return store.Standing{}, err
		}
		for _, one := range marks {
			m = one
		}
		if st, err := compare(c, m); err != nil || st.Step != store.Admitted {
			return st, err
		}
	}
	return store.Standing{Step: store.Admitted}, nil
}

// Revoke ends nobody.
func (a *apart) Revoke(context.Context, store.Session, fence.Claim) (int, error) { return 0, nil }

// compare is the right comparison of a claim with a mark.
func compare(c fence.Claim, m store.Mark) (store.Standing, error) {
	st := store.Standing{Claim: c, Mark: m}
	switch higher := c.Token.Compare(m.Token); {
	case m.Token != 0 && m.Issuer != c.Issuer:
		return st, store.Foreign(c, m)
	case higher < 0:
		return st, store.Stale(c, m)
	case higher > 0 || !m.Confirmed:
		st.Step = store.MustRaise
	}
	return st, nil
}
