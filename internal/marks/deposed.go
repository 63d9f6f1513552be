package marks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// reasonTime bounds Ended.
const reasonTime = 5 * time.Second

// Ended says why a session under these claims was ended: an ErrStale refusal if a mark is above one
// of them. It returns nil for any other reason, such as an administrator, and if the store does not
// answer within five seconds or before ctx ends. A crowd that asks at once costs the store one
// query at a time.
func (a *Admission) Ended(ctx context.Context, claims []Presented) error {
	ctx, cancel := context.WithTimeout(ctx, reasonTime)
	defer cancel()
	for _, c := range claims {
		if err := a.overtaken(c); err != nil {
			return err
		}
	}
	marks, _ := a.reasons.do(ctx, Under("", claims), a.marksOfAll)
	for _, c := range claims {
		if m, ok := marks[c.Resource]; ok && m.Token.Compare(c.Token) > 0 {
			return refusal.Stale(c.Under(""), m.Token, m.Holder, m.Raised)
		}
	}
	return nil
}

// overtaken refuses a claim if this process has seen a mark above it.
func (a *Admission) overtaken(c Presented) error {
	m, ok := a.seen.get(c.Resource)
	if !ok || m.Token.Compare(c.Token) <= 0 {
		return nil
	}
	return refusal.Stale(c.Under(""), m.Token, m.Holder, m.Raised)
}

// marksOfAll reads the marks of several sessions' claims at once.
func (a *Admission) marksOfAll(
	ctx context.Context, sessions [][]fence.Claim,
) (map[fence.Resource]Mark, error) {
	return a.marks(ctx, slices.Concat(sessions...))
}

// explained returns the error of a step with its reason, for which it may ask authority and store.
func (a *Admission) explained(ctx context.Context, err error) error {
	err = a.asked(err)
	switch r, refused := errors.AsType[*fence.Refusal](err); {
	case !refused:
		return err
	case r.Reason == fence.ErrStale:
		return a.rolledBack(ctx, r)
	case r.Claim.Resource == "":
	case r.Reason == fence.ErrNotLeader, r.Reason == fence.ErrMarkInDoubt:
		return a.deposed(ctx, []fence.Claim{r.Claim}, r)
	}
	return err
}

// asked makes sure that every error says what was admitted and what to do.
func (a *Admission) asked(err error) error {
	if _, refused := errors.AsType[*fence.Refusal](err); err == nil || refused {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return refusal.TimedOut(err)
	}
	return fmt.Errorf("the store could not be asked, nothing was admitted: %w", err)
}

// deposed says why claims are refused that the authority does not confirm. A mark above a token
// refuses it for good, whereas the authority only knows who leads now.
func (a *Admission) deposed(ctx context.Context, claims []fence.Claim, refused error) error {
	marks, _ := a.marks(ctx, claims)
	for _, c := range claims {
		m := marks[c.Resource]
		switch {
		case c.Issuer == "" || m.Issuer == "": // the issuer is not known, or there is no mark
		case m.Issuer != c.Issuer:
			return refusal.OtherIssuer(c, m.Token, m.Issuer)
		case m.RolledBack:
			return refusal.RolledBack(c, m.Token)
		case m.Token.Compare(c.Token) > 0:
			return stale(c, m)
		default:
			refused = withMark(refused, m)
		}
	}
	return refused
}

// rolledBack checks whether a token that the store refuses as stale still leads. If so, the
// coordinator was rolled back, as by a restore from a backup, and its leader must not be told that
// it is deposed. A raise writes that down in the store: otherwise each further try would count up,
// and be above the mark sooner or later.
func (a *Admission) rolledBack(ctx context.Context, refused *fence.Refusal) error {
	if !a.Authority.Verifies() {
		return refused
	}
	if _, deposed := a.verify(ctx, Present(refused.Claim)); deposed != nil {
		return refused
	}
	if _, err := a.raise(ctx, SessionID{}, refused.Claim, nil); err != nil &&
		!errors.Is(err, fence.ErrStale) {
		return err
	}
	return refusal.RolledBack(refused.Claim, refused.Mark)
}

// marks reads the marks of claims from the store. Where the store has lost a mark or does not
// answer, it takes the mark from the memory of this process. Who refuses for a lost mark what the
// store would admit has it restored.
func (a *Admission) marks(
	ctx context.Context, claims []fence.Claim,
) (map[fence.Resource]Mark, error) {
	var only []fence.Resource
	marks, before := make(map[fence.Resource]Mark), make(map[fence.Resource]Mark)
	for _, c := range claims {
		only = append(only, c.Resource)
		before[c.Resource], _ = a.seen.get(c.Resource)
	}
	slices.Sort(only)
	only = slices.Compact(only)
	read, err := a.Store.Marks(ctx, only...)
	for _, m := range read {
		a.learn(m)
		marks[m.Resource] = m
	}
	for _, r := range only {
		if m, ok := a.seen.over(r, marks[r], before[r]); ok {
			m.Lost = m.Lost && err == nil
			marks[r] = m
		}
	}
	return marks, err
}
