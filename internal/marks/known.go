package marks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Known refuses claims that this process knows to be below a mark, before anything of the client reaches the store. It
// spares the store a storm of deposed clients that connect again and again. What it knows may be out of date, so it asks
// authority and store, for one client of a resource at a time and not again for the same token within a second. Nil says
// nothing: the claims have to be admitted.
func (a *Admission) Known(ctx context.Context, claims []Presented) error {
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

// judge refuses a claim as Admit would, without a session; nil for one that has to be admitted to be judged.
func (a *Admission) judge(ctx context.Context, c Presented) error {
	claims, err := a.verify(ctx, []Presented{c})
	if err != nil {
		return a.deposed(ctx, claims, err)
	}
	if a.Authority.Verifies() {
		return nil
	}
	marks, err := a.marks(ctx, claims)
	if m := marks[c.Resource]; (err == nil || errors.Is(err, fence.ErrNotInstalled)) && m.Issuer == claims[0].Issuer && m.Token.Compare(c.Token) > 0 {
		return refusal.Stale(claims[0], m.Token, m.Holder, m.Raised)
	}
	return nil
}

// verdicts are what Known has found last, for each resource.
type verdicts struct {
	mu  sync.Mutex
	all map[fence.Resource]*verdict
}

// of returns the verdict of a resource. There are as many as resources that have a mark.
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
	turn  chan struct{} // held by whoever asks or reads
	token fence.Token
	at    time.Time
	err   error
}

// fresh is how long a verdict on a token is repeated without being asked for again.
const fresh = time.Second

// get returns the verdict on a claim; those who come while it is being asked for wait for it.
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
