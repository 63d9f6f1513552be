package marks

import (
	"context"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Keeping is an Elected that keeps admitting a verified leader during an outage: while the
// coordinator does not answer, further sessions of a token are admitted if this process has
// verified that token before and the mark in the store is still its own, confirmed in the present
// run of the store. Nobody can raise a mark meanwhile.
//
// It cannot see that the coordinator has elected somebody else. So a deposed leader may open
// sessions, and write, until a guard that does reach the coordinator has raised the mark: the new
// leader is admitted only after these sessions have ended, as always. What is lost is the time in
// which the deposed leader would have had only the sessions that it had.
type Keeping struct {
	Elected
	// OnOutage is told of the first claim in an outage that is admitted without the coordinator.
	OnOutage func(c fence.Claim, why error)

	mu     sync.Mutex
	known  map[fence.Resource]fence.Claim
	outage bool
}

// patience is how long a Keeping waits for the coordinator, and how long if it has not answered the
// last time.
const patience, patienceInOutage = time.Second, 200 * time.Millisecond

// Verify asks the coordinator, as Elected does. If the coordinator does not answer soon, the claims
// are admitted that are known.
func (k *Keeping) Verify(ctx context.Context, presented []Presented) ([]fence.Claim, error) {
	claims, err := k.ask(ctx, presented)
	if unanswered := err != nil && claims[0].Issuer == ""; !unanswered {
		k.learn(claims, err == nil)
		return claims, err
	}
	kept, first := k.keep(claims)
	if kept == nil {
		return claims, err
	}
	if first && k.OnOutage != nil {
		k.OnOutage(kept[0], err)
	}
	return kept, nil
}

// ask waits for the coordinator with the patience for a leader that is known, or until ctx ends.
func (k *Keeping) ask(ctx context.Context, presented []Presented) ([]fence.Claim, error) {
	k.mu.Lock()
	wait, known := patience, true
	if k.outage {
		wait = patienceInOutage
	}
	for _, p := range presented {
		known = known && k.known[p.Resource].Token == p.Token
	}
	k.mu.Unlock()
	if known {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	return k.Elected.Verify(ctx, presented)
}

// learn keeps or forgets what the coordinator has just said of these claims.
func (k *Keeping) learn(claims []fence.Claim, lead bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.outage = false
	if k.known == nil {
		k.known = make(map[fence.Resource]fence.Claim)
	}
	for _, c := range claims {
		switch {
		case lead:
			k.known[c.Resource] = c
		case k.known[c.Resource].Token == c.Token:
			delete(k.known, c.Resource)
		}
	}
}

// keep returns the claims as they were verified before; nil if one of them was not. first reports
// whether it is the first time in this outage.
func (k *Keeping) keep(claims []fence.Claim) (kept []fence.Claim, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range claims {
		known, ok := k.known[c.Resource]
		if !ok || known.Token != c.Token {
			return nil, false
		}
		kept = append(kept, known)
	}
	first, k.outage = !k.outage, true
	return kept, first
}
