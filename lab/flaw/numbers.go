package flaw

import (
	"context"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/refusal"
)

// numbers compares only numbers. It refuses a leader below the mark before the store could write
// down that the coordinator went back, so each refusal is forgotten.
type numbers struct{ marks.Authority }

// Verify says whose the tokens are, but not which candidate's.
func (n numbers) Verify(ctx context.Context, claims []marks.Presented) ([]fence.Claim, error) {
	all, err := n.Authority.Verify(ctx, claims)
	for i := range all {
		all[i].Candidate = ""
	}
	return all, err
}

// Confirm refuses what is below the mark.
func (n numbers) Confirm(ctx context.Context, c fence.Claim, m marks.Mark) (fence.Claim, error) {
	confirmed, err := n.Authority.Confirm(ctx, c, m)
	confirmed.Candidate = ""
	if err == nil && m.Issuer == confirmed.Issuer && m.Below(confirmed) {
		err = refusal.RolledBack(confirmed, m.Token)
	}
	return confirmed, err
}
