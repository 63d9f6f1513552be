package fence_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ringfence/ringfence/fence"
)

func TestOnlyARefusalOfTheOwnTokenSaysThatItIsStale(t *testing.T) {
	own := fence.Claim{Resource: "orders", Token: 33, Issuer: "test:1", Holder: "a"}
	stale := func(c fence.Claim) error { return &fence.Refusal{Reason: fence.ErrStale, Claim: c} }
	mine := stale(fence.Claim{Resource: "orders", Token: 33})
	foreign, older := stale(fence.Claim{Resource: "stock", Token: 33}),
		stale(fence.Claim{Resource: "orders", Token: 32})
	for err, want := range map[error]bool{
		nil:                                    false,
		fence.ErrStale:                         true,
		mine:                                   true,
		stale(own):                             true,
		foreign:                                false,
		older:                                  false,
		&fence.Refusal{Reason: fence.ErrStale}: true, // it does not say whose
		&fence.Refusal{Reason: fence.ErrNotLeader, Claim: own}:     false,
		fmt.Errorf("insert: %w", mine):                             true,
		fmt.Errorf("insert: %w", foreign):                          false,
		fmt.Errorf("%w: %w", fence.ErrSuperseded, foreign):         false,
		errors.Join(foreign, fmt.Errorf("then: %w", mine)):         true,
		errors.Join(foreign, older, errors.New("stale"), nil):      false,
		fmt.Errorf("%w, and then %w", foreign, fence.ErrStale):     true,
		fmt.Errorf("insert: %w", fmt.Errorf("%w", fence.ErrStale)): true,
	} {
		if got := own.IsStale(err); got != want {
			t.Errorf("IsStale(%v) = %v, want %v", err, got, want)
		}
	}
}
