package marks

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// verdicts holds the last refusals of claims that are known to be stale, by resource.
type verdicts struct {
	mu  sync.Mutex
	all map[fence.Resource]*verdictsOf
}

// verdictsOf holds those of one resource. There are no more of them than resources with a mark.
type verdictsOf struct {
	turn chan struct{} // holds a value while a goroutine asks

	// The mutex of verdicts guards these.
	tokens map[fence.Token]*verdict
}

// verdict is the last refusal of a token.
type verdict struct {
	err    error // nil: there is none yet
	at     time.Time
	asking int // goroutines that ask, or wait for their turn
}

// maxVerdicts is how many tokens of a resource are remembered. A client that may not log in can
// name as many as it likes.
const maxVerdicts = 16

// has reports whether there is a refusal of a claim.
func (v *verdicts) has(c Presented) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	of := v.all[c.Resource]
	return of != nil && of.tokens[c.Token] != nil
}

// get returns the verdict on a claim: the last one if that is recent or somebody asks at this
// moment, and otherwise that of judge. Callers that have no last one to repeat wait for it.
func (v *verdicts) get(
	ctx context.Context, c Presented, recent time.Duration,
	judge func(context.Context, Presented) error,
) error {
	of, one, err := v.begin(c, recent)
	if err != nil {
		return err
	}
	defer v.done(of, c.Token, one)
	select {
	case of.turn <- struct{}{}:
		defer func() { <-of.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := v.last(one, recent); err != nil { // the one before has asked about the same token
		return err
	}
	err = judge(ctx, c)
	if ctx.Err() == nil {
		v.mu.Lock()
		one.err, one.at = err, time.Now()
		v.mu.Unlock()
	}
	return err
}

// begin returns the verdict that is to be repeated, or else counts the caller as one who asks.
func (v *verdicts) begin(c Presented, recent time.Duration) (*verdictsOf, *verdict, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	of, one := v.of(c)
	if one.err != nil && (one.asking > 0 || time.Since(one.at) < recent) {
		return nil, nil, one.err
	}
	one.asking++
	return of, one, nil
}

// of returns the verdict on a claim, a new one if necessary. The caller holds the mutex.
func (v *verdicts) of(c Presented) (*verdictsOf, *verdict) {
	of := v.all[c.Resource]
	if of == nil {
		of = &verdictsOf{turn: make(chan struct{}, 1), tokens: make(map[fence.Token]*verdict)}
		if v.all == nil {
			v.all = make(map[fence.Resource]*verdictsOf)
		}
		v.all[c.Resource] = of
	}
	if of.tokens[c.Token] == nil {
		of.tokens[c.Token] = &verdict{}
	}
	return of, of.tokens[c.Token]
}

func (v *verdicts) last(one *verdict, recent time.Duration) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Since(one.at) < recent {
		return one.err
	}
	return nil
}

// done ends what begin began.
func (v *verdicts) done(of *verdictsOf, t fence.Token, one *verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	one.asking--
	if one.asking == 0 && one.err == nil {
		delete(of.tokens, t)
	}
	of.shrink()
}

// shrink forgets the oldest verdicts. It keeps those that somebody asks about.
func (of *verdictsOf) shrink() {
	for len(of.tokens) > maxVerdicts {
		var oldest *verdict
		var token fence.Token
		for t, one := range of.tokens {
			if one.asking == 0 && (oldest == nil || one.at.Before(oldest.at)) {
				oldest, token = one, t
			}
		}
		if oldest == nil {
			return
		}
		delete(of.tokens, token)
	}
}

// learn remembers a refusal as stale.
func (v *verdicts) learn(err error) {
	r, ok := errors.AsType[*fence.Refusal](err)
	if !ok || r.Reason != fence.ErrStale || r.Claim.Resource == "" {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	of, one := v.of(Presented{Resource: r.Claim.Resource, Token: r.Claim.Token})
	one.err, one.at = err, time.Now()
	of.shrink()
}
