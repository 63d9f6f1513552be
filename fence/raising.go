package fence

import (
	"context"
	"errors"
)

// Raising calls call and, where that fails because the mark is not raised to the claim (ErrNotLeader), raises it and calls
// once more. It is for what runs under a claim without a guard in between: the database was restarted or restored, say,
// and a mark counts only on the run of the server on which it was raised. call must leave nothing behind when it fails
// with ErrNotLeader, as a transaction or script under a claim does.
//
// The error is that of the last call, or of the raise; after either nothing of call has landed, unless call's own error
// says otherwise.
func Raising(ctx context.Context, r Raiser, c Claim, call func(context.Context) error) error {
	err := call(ctx)
	if !errors.Is(err, ErrNotLeader) {
		return err
	}
	if err := r.Raise(ctx, c); err != nil {
		return err
	}
	return call(ctx)
}
