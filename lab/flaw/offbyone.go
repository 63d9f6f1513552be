package flaw

import (
	"context"
	"errors"
	"sync"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// refuser refuses a token that equals the mark: <= instead of <. The session that raised the mark
// is admitted; later ones of the same, rightful leader are not. It stands for a fence that is safe
// and useless, which a lab that only looks for corruption would praise.
type refuser struct {
	marks.Store

	mu     sync.Mutex
	raised map[fence.Claim]bool // by an admission in progress
}

// Register refuses a session unless its own admission raised the mark.
func (r *refuser) Register(
	ctx context.Context, s marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	for _, c := range claims {
		found, err := r.Marks(ctx, c.Resource)
		if err != nil {
			return marks.Registration{}, err
		}
		for _, m := range found {
			if m.Confirmed && m.Token == c.Token && m.Issuer == c.Issuer && !r.raises(c) {
				return marks.Registration{Claim: c, Mark: m}, refusal.Stale(c, m.Token, m.Holder, m.Raised)
			}
		}
	}
	st, err := r.Store.Register(ctx, s, claims)
	if err != nil || st.Next == marks.Admitted {
		r.settle(claims)
	}
	return st, err
}

// Raise calls the real one.
func (r *refuser) Raise(
	ctx context.Context, newcomer marks.SessionID, c fence.Claim, confirm marks.Confirm,
) (marks.Mark, error) {
	before, err := r.Store.Raise(ctx, newcomer, c, confirm)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.raised[anyHolder(c)] = true
	}
	return before, err
}

func (r *refuser) raises(c fence.Claim) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.raised[anyHolder(c)]
}

// settle records that the admission that raised the mark is over.
func (r *refuser) settle(claims []fence.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range claims {
		delete(r.raised, anyHolder(c))
	}
}

// anyHolder returns the claim without the holder's name, which the coordinator may correct.
func anyHolder(c fence.Claim) fence.Claim {
	c.Holder = ""
	return c
}

// lenient admits the token that was the mark before the last raise, and does not record it: off by
// one, counted in terms. It stands for a grace period for the old leader, and for a comparison with
// a mark that was read too early.
type lenient struct {
	forgetful

	mu   sync.Mutex
	last map[fence.Resource]fence.Token // the mark before the present one
}

// Register admits the last leader too.
func (l *lenient) Register(
	ctx context.Context, s marks.SessionID, claims []fence.Claim,
) (marks.Registration, error) {
	st, err := l.forgetful.Register(ctx, s, claims)
	if errors.Is(err, fence.ErrStale) && l.isLast(st.Claim) {
		return marks.Registration{Next: marks.Admitted}, nil
	}
	return st, err
}

// Raise calls the real one.
func (l *lenient) Raise(
	ctx context.Context, newcomer marks.SessionID, c fence.Claim, confirm marks.Confirm,
) (marks.Mark, error) {
	before, err := l.forgetful.Raise(ctx, newcomer, c, confirm)
	if err == nil && before.Token != c.Token {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.last[c.Resource] = before.Token
	}
	return before, err
}

func (l *lenient) isLast(c fence.Claim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.Token != 0 && l.last[c.Resource] == c.Token
}
