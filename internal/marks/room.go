package marks

import (
	"context"
	"errors"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Newer reports whether this process has not seen a mark yet that is one of these claims, or above
// it.
func (a *Admission) Newer(claims []Presented) bool {
	for _, c := range claims {
		if m, ok := a.seen.get(c.Resource); !ok || m.Token.Compare(c.Token) < 0 {
			return true
		}
	}
	return false
}

// Leads returns nil if the coordinator confirms now that the claims lead. Without a coordinator it
// returns an error: anybody can invent a token.
func (a *Admission) Leads(ctx context.Context, presented []Presented) error {
	_, err := a.leading(ctx, presented)
	return err
}

func (a *Admission) leading(ctx context.Context, presented []Presented) ([]fence.Claim, error) {
	if !a.Authority.Verifies() {
		return nil, refusal.Unverified(presented[0].Under(""), errors.New("there is no coordinator"))
	}
	claims, err := a.verify(ctx, presented)
	if err != nil {
		return nil, a.deposed(ctx, claims, err)
	}
	return claims, nil
}

// MakeRoom raises the marks for a new leader whose connection the server has refused because it is
// full, and ends the older sessions, which may be what fills it. It does no more than a guard that
// follows the election (Follower): the coordinator says who leads, whoever asks, and a mark that is
// not confirmed is left to the leader's own session. So it does not matter that the client has not
// logged in.
func (a *Admission) MakeRoom(ctx context.Context, presented []Presented) error {
	claims, err := a.leading(ctx, presented)
	for i := 0; err == nil && i < len(claims); i++ {
		err = a.makeRoom(ctx, claims[i])
	}
	return err
}

func (a *Admission) makeRoom(ctx context.Context, c fence.Claim) error {
	raised := false
	err := a.raiseAlone(ctx, SessionID{}, c, func(m Mark) error {
		raised = m.Confirmed && m.Token == c.Token && m.Issuer == c.Issuer
		if !m.Confirmed || m.Token == 0 || m.Token.Compare(c.Token) >= 0 {
			return errNotFollowed
		}
		return nil
	})
	switch {
	case errors.Is(err, errNotFollowed) && raised: // by another guard, which may not have ended them
		return a.revoke(ctx, SessionID{}, c, 0)
	case errors.Is(err, errNotFollowed):
		return nil
	}
	return err
}
