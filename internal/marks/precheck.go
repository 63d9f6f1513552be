package marks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Precheck refuses claims that this process has seen a higher mark for, before anything of the
// client reaches the store. It protects the store from deposed clients that reconnect in a loop.
//
// What this process has seen may be out of date, so Precheck asks authority and store: one client
// of a resource at a time, and at most once a second for the same token. After nil the claims still
// have to be admitted.
func (a *Admission) Precheck(ctx context.Context, claims []Presented) error {
	for _, c := range claims {
		if m, ok := a.seen.get(c.Resource); !ok || c.Token.Compare(m.Token) >= 0 {
			continue
		}
		if err := a.verdicts.of(c.Resource).get(ctx, c, a.judge); err != nil {
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
	if m.Issuer == claims[0].Issuer && m.Token.Compare(c.Token) > 0 {
		return refusal.Stale(claims[0], m.Token, m.Holder, m.Raised)
	}
	return nil
}

// verdicts holds the last verdict of each resource.
type verdicts struct {
	mu  sync.Mutex
	all map[fence.Resource]*verdict
}

// of returns the verdict of a resource. There are no more of them than resources with a mark.
func (v *verdicts) of(r fence.Resource) *verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all == nil {
		v.all = make(map[fence.Resource]*verdict)
	}
	if v.all[r] == nil {
		v.all[r] = &verdict{turn: make(chan struct{}, 1)}
	}
	return v.all[r]
}

// verdict is the last refusal of a resource's claims.
type verdict struct {
	turn  chan struct{} // holds a value while a goroutine asks or reads
	token fence.Token
	at    time.Time
	err   error
}

// fresh is how long a verdict on a token is repeated without asking again.
const fresh = time.Second

// get returns the verdict on a claim. Callers that arrive while another one asks wait for its
// verdict.
func (v *verdict) get(ctx context.Context, c Presented, judge func(context.Context, Presented) error) error {
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if v.err != nil && v.token == c.Token && time.Since(v.at) < fresh {
		return v.err
	}
	err := judge(ctx, c)
	v.token, v.at, v.err = c.Token, time.Now(), err
	return err
}
