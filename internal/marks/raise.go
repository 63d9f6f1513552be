package marks

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Raise raises the mark to a claim and ends older sessions, but registers none. A new leader calls
// it at a store that it reaches without a guard. The claim must have its issuer. After an error the
// mark may or may not be raised.
func (a *Admission) Raise(ctx context.Context, c fence.Claim) error {
	return a.RaiseFor(ctx, "", c)
}

// RaiseFor is Raise on behalf of a user's session that is not registered. The store refuses a user
// that may not claim the resource, if the user is not empty.
func (a *Admission) RaiseFor(ctx context.Context, user string, c fence.Claim) error {
	return a.raiseAlone(ctx, Session{User: user}, c, nil)
}

// raiseAlone raises the mark (raise has from) and ends older sessions. It registers none.
func (a *Admission) raiseAlone(
	ctx context.Context, s Session, c fence.Claim, from func(Mark) error,
) error {
	_, err := a.raise(ctx, s, c, from)
	if err == nil {
		// Those at rest in this process need not wait for the store, nor it for them.
		quiet := a.quiet(ctx, c)
		endIn(10*time.Millisecond, quiet)
		err = a.revoke(ctx, Session{}, c, len(quiet))
	}
	return a.explained(ctx, err)
}
