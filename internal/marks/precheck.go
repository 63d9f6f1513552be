package marks

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/fence"
)

// Precheck refuses claims that this process has seen a higher mark for, or has refused as stale,
// before anything of the client reaches the store. It protects store, authority and slots from
// deposed clients that reconnect in a loop.
//
// What this process remembers may be out of date, so Precheck asks authority and store again: one
// client of a resource at a time, and a token not again within Recheck. Meanwhile it repeats the
// last refusal. After nil the claims still have to be admitted.
func (a *Admission) Precheck(ctx context.Context, claims []Presented) error {
	for _, c := range claims {
		m, ok := a.seen.get(c.Resource)
		if below := ok && c.Token.Compare(m.Token) < 0; !below && !a.verdicts.has(c) {
			continue
		}
		if err := a.verdicts.get(ctx, c, a.recheck(), a.judge); err != nil {
			return err
		}
	}
	return nil
}

// judge refuses a claim as Admit would, without a session. It returns nil for a claim that only
// Admit can decide.
func (a *Admission) judge(ctx context.Context, c Presented) error {
	claims, err := a.verify(ctx, []Presented{c})
	if err != nil {
		return a.deposed(ctx, claims, err)
	}
	if a.Authority.Verifies() {
		return nil
	}
	marks, err := a.marks(ctx, claims)
	if err != nil && !errors.Is(err, fence.ErrNotInstalled) {
		return nil
	}
	m := marks[c.Resource]
	if m.Issuer == claims[0].Issuer && m.Token.Compare(c.Token) > 0 && a.counts(ctx, m) {
		return stale(claims[0], m)
	}
	return nil
}
