package marks

import (
	"context"

	"github.com/ringfence/ringfence/fence"
)

// Crowded is a Store whose server has a bound on what all sessions hold together, such as locks: a
// session can use it up, and then no raise can go above it.
type Crowded interface {
	// NoRoom reports whether a call has failed because sessions have used up what it needs.
	NoRoom(err error) bool
	// EndOlder ends the recorded sessions of the resource below a claim, and returns once they are
	// gone. The caller has just heard from the coordinator that the claim leads. It changes no mark
	// and no record, and ends nobody if the mark is above the claim or another issuer's. It needs
	// nothing that sessions can use up.
	EndOlder(ctx context.Context, c fence.Claim) error
}

// withRoom makes a call for claims. If sessions have used up what the call needs of the server, and
// the coordinator says that the claims lead, it ends older sessions and makes the call once more.
func (a *Admission) withRoom(ctx context.Context, claims []fence.Claim, call func() error) error {
	err := call()
	crowded, ok := a.Store.(Crowded)
	if err == nil || !ok || !crowded.NoRoom(err) || !a.Authority.Verifies() {
		return err
	}
	for _, c := range claims {
		leads, confirmErr := a.Authority.Confirm(ctx, c, Mark{Resource: c.Resource})
		if confirmErr != nil || crowded.EndOlder(ctx, leads) != nil {
			return err
		}
	}
	return call()
}
