package marks

import (
	"context"
	"fmt"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/fence/elector"
	"github.com/ringfence/ringfence/internal/refusal"
)

// Authority decides whose tokens are admitted and may raise a mark.
type Authority interface {
	// Issuer returns the issuer of the tokens that clients present. It asks each time and remembers
	// nothing, because a coordinator that was rebuilt may give out the very number that the mark has.
	Issuer(ctx context.Context) (fence.Issuer, error)

	// Verify is called at every admission. It returns the claims with their issuer and, where the
	// authority knows them, their holders. An ErrNotLeader refusal means that one of them does not
	// lead now, or that nobody could say. Verify then returns the claims, too; their issuer is empty
	// if it could not be asked.
	Verify(ctx context.Context, claims []Presented) ([]fence.Claim, error)

	// Confirm agrees that a claim may raise this mark, and returns it as Verify does. Otherwise it
	// returns an ErrNotLeader refusal.
	Confirm(ctx context.Context, c fence.Claim, m Mark) (fence.Claim, error)

	// Verifies reports whether Verify and Confirm ask a coordinator. If so, a token that they agree to
	// does lead.
	Verifies() bool
}

// Unverified believes every higher token, under an issuer that the operator names
// (elector.Unverified by default). It is the weaker mode: anybody who may log in may raise a mark
// with an invented token and lock the others out.
//
// Only the mark refuses a deposed leader's token. So this mode cannot see that a mark was rolled
// back if the store shows nothing of it: an older disk snapshot or base backup that was started in
// place of its original, a standby that was promoted by deleting standby.signal, or a Redis server
// that has lost its last writes. Then only an Admission that has seen the higher mark refuses.
// Where the store does show it, this mode refuses, because it cannot ask anybody what the mark was.
type Unverified struct{ Name fence.Issuer }

// Issuer returns the configured name.
func (u Unverified) Issuer(context.Context) (fence.Issuer, error) {
	if u.Name == "" {
		return elector.Unverified, nil
	}
	return u.Name, nil
}

// Verifies returns false.
func (u Unverified) Verifies() bool { return false }

// Verify agrees to everything.
func (u Unverified) Verify(ctx context.Context, claims []Presented) ([]fence.Claim, error) {
	is, _ := u.Issuer(ctx)
	return Under(is, claims), nil
}

// Confirm agrees unless the claim is below the mark, or the mark may have been lost or rolled back.
// An ordinary restart of the server raises no doubt.
func (u Unverified) Confirm(_ context.Context, c fence.Claim, m Mark) (fence.Claim, error) {
	switch {
	case m.Issuer == c.Issuer && m.Token.Compare(c.Token) > 0:
		return c, refusal.Stale(c, m.Token, m.Holder, m.Raised)
	case m.Issuer == c.Issuer && m.Below(c):
		return c, refusal.RolledBack(c, m.Token)
	case m.Confirmed || m.Continued:
		return c, nil
	}
	return c, refusal.MarkInDoubt(c, m.Token)
}

// Elected admits only the current leader of the resource's election.
type Elected struct{ Observer elector.Observer }

// Issuer returns the coordinator's identity.
func (e Elected) Issuer(ctx context.Context) (fence.Issuer, error) {
	is, err := e.Observer.Issuer(ctx)
	if err != nil {
		return "", refusal.Unverified(fence.Claim{}, err)
	}
	return is, nil
}

// Verifies returns true.
func (e Elected) Verifies() bool { return true }

// Leaders asks the coordinator who leads (elector.Observer).
func (e Elected) Leaders(
	ctx context.Context, rs ...fence.Resource,
) (fence.Issuer, []elector.Candidate, error) {
	return e.Observer.Leaders(ctx, rs...)
}

// Verify asks the coordinator in one linearizable read. Each token must be the one that leads.
func (e Elected) Verify(ctx context.Context, presented []Presented) ([]fence.Claim, error) {
	resources := make([]fence.Resource, len(presented))
	for i, p := range presented {
		resources[i] = p.Resource
	}
	is, leaders, err := e.Observer.Leaders(ctx, resources...)
	if err != nil {
		return Under("", presented), refusal.Unverified(presented[0].Under(""), err)
	}
	claims := Under(is, presented)
	for i, leader := range leaders {
		if leader.Token != claims[i].Token {
			return claims, e.notLeader(ctx, claims[i], leader)
		}
		claims[i].Holder, claims[i].Candidate = leader.Holder, leader.ID
	}
	return claims, nil
}

// Confirm asks the coordinator, as Verify does. A claim whose candidate is known must be that
// one's: a coordinator that was restored may have given the token to another one.
func (e Elected) Confirm(ctx context.Context, c fence.Claim, m Mark) (fence.Claim, error) {
	claims, err := e.Verify(ctx, Present(c))
	if leader := claims[0]; err == nil && c.Candidate != "" && c.Candidate != leader.Candidate {
		err = refusal.NotLeader(c,
			fmt.Sprintf("the leader of %q is another candidate with this token, %s",
				c.Resource, leader.Holder))
	}
	return claims[0], withMark(err, m)
}

// notLeader says who leads instead. Only a token above the leader's can be waiting in the queue.
func (e Elected) notLeader(ctx context.Context, c fence.Claim, leader elector.Candidate) error {
	r := refusal.NotLeader(c, fmt.Sprintf("nobody leads %q at the coordinator now", c.Resource))
	if leader.Token == 0 {
		return r
	}
	r.Detail = fmt.Sprintf("the leader of %q is %s with token %s", c.Resource, leader.Holder,
		leader.Token)
	if c.Token.Compare(leader.Token) < 0 {
		return r
	}
	queue, err := e.Observer.Candidates(ctx, c.Resource)
	if err != nil {
		return r // the queue only explains; it decides nothing
	}
	for i, waiting := range queue {
		if i > 0 && waiting.Token == c.Token {
			r.Detail += fmt.Sprintf("; %s waits in place %d of the queue", waiting.Holder, i+1)
		}
	}
	return r
}
