package marks

import (
	"context"
	"testing"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Anybody who reaches the guard can name any token.
func TestOnlySoManyStaleTokensAreRemembered(t *testing.T) {
	var v verdicts
	for token := range fence.Token(1000) {
		stale := &fence.Refusal{
			Reason: fence.ErrStale, Claim: fence.Claim{Resource: "orders", Token: token + 1},
		}
		c := Presented{Resource: "orders", Token: token + 1}
		if token%2 == 0 {
			v.learn(stale)
			continue
		}
		err := v.get(t.Context(), c, time.Second, func(context.Context, Presented) error { return stale })
		if err != stale {
			t.Fatal(err)
		}
	}
	if n := len(v.all["orders"].tokens); n != maxVerdicts {
		t.Errorf("%d tokens are remembered, want %d", n, maxVerdicts)
	}
	if !v.has(Presented{Resource: "orders", Token: 1000}) {
		t.Error("the last one is not remembered")
	}
}
