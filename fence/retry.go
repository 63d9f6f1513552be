package fence

import (
	"context"
	"errors"
)

// RetryRaised calls call. If call fails because the mark is not raised to the claim (ErrNotRaised),
// RetryRaised raises the mark and calls call once more. Use it for transactions and scripts under a
// claim without a guard: a mark counts only on the run of the server on which it was raised, so it
// has to be raised again after a restart or a restore. When call fails with ErrNotRaised it must
// leave nothing behind, as such transactions and scripts do.
//
// RetryRaised returns the error of the last call, or of the raise. Nothing of call has landed then,
// unless the error of call says otherwise.
func (c Claim) RetryRaised(
	ctx context.Context, r Raiser, call func(context.Context) error,
) error {
	err := call(ctx)
	if !errors.Is(err, ErrNotRaised) {
		return err
	}
	if err := r.Raise(ctx, c); err != nil {
		return err
	}
	return call(ctx)
}
