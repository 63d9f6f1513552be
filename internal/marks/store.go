package marks

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// SessionID identifies one database connection in the database's own terms. ID alone does not,
// because databases reuse it.
type SessionID struct {
	ID    int64  // Postgres: backend pid. Redis: client id
	Birth string // Postgres: backend_start. Redis: empty, because one run does not reuse an id
	Run   string // the run of the server at the other end, as that connection itself reported it
	// Redis: the user as the server lists it. Postgres: empty, the database knows the role
	User string
}

// Departed is a session that writes no more, and the resources that it had claimed. Its connection
// is closed, or it has a Proof.
type Departed struct {
	Session   SessionID
	Resources []fence.Resource

	// Proof is a statement that the guard has sent on the session's own connection, after it has
	// stopped passing on what the client sends. It has a random name in it. The store lets the session
	// go if the server shows that the session has run it and is idle.
	Proof string

	// Overdue is true if the session was let go and its connection is closed, and it should have ended
	// by now. Then the store ends it.
	Overdue bool
}

// departed is a session that was admitted under these claims.
func departed(s SessionID, claims []Presented) Departed {
	d := Departed{Session: s}
	for _, c := range claims {
		d.Resources = append(d.Resources, c.Resource)
	}
	return d
}

// Mark is the highest token that a store has accepted for a resource. It never goes down under one
// issuer.
type Mark struct {
	Resource fence.Resource `json:"resource"`
	Token    fence.Token    `json:"token"` // 0: no term has raised it yet
	Issuer   fence.Issuer   `json:"issuer"`
	Holder   string         `json:"holder"` // who raised it, for people
	Raised   time.Time      `json:"raised_at"`
	// registered now; set by Raise, and by Marks when it reads all
	Sessions int `json:"sessions"`

	// Confirmed is true if the mark was raised on this very run of the server, and its record is not a
	// copy. Otherwise it may have been lost or rolled back since. A raise confirms it.
	Confirmed bool `json:"confirmed"`

	// Continued is true if nothing shows that the mark was rolled back: it was raised on this server,
	// and its record is not a copy. It stays true after a restart. It also stays true after the return
	// of an older disk snapshot, which looks the same, so it proves less than Confirmed.
	Continued bool `json:"continued"`

	// Adoption names the last adoption by an operator; empty when there was none.
	Adoption string `json:"-"`

	// Candidate is whose term has raised the mark (elector.Candidate.ID); empty if that is not known.
	Candidate string `json:"-"`

	// RolledBack is true if a leader of the issuer was seen below the mark, or at it as another
	// candidate, so that the coordinator gives out tokens a second time. Nobody of that issuer is
	// admitted any more, until an operator adopts the resource.
	RolledBack bool `json:"rolled_back"`

	// Left names older sessions that may still live at another server, where a raise could not end
	// them; set by Raise.
	Left string `json:"-"`

	// Lost is true if the store has lost the mark: this process has seen it, and the store shows a
	// lower one or none. No store sets it.
	Lost bool `json:"-"`
}

// Below reports whether a claim of the mark's issuer is older than the mark, or has its number as
// another candidate. It must not be the leader's.
func (m Mark) Below(c fence.Claim) bool {
	other := m.Candidate != "" && c.Candidate != "" && m.Candidate != c.Candidate
	return m.Token.Compare(c.Token) > 0 || m.Token == c.Token && other
}

// Next is what Register found missing.
type Next int

const (
	Admitted  Next = iota // nothing: the session is registered
	MustRaise             // the mark is below the claim, or not confirmed
	// the mark is the claim's, but sessions that are not under it may still live
	MustRevoke
)

// Registration is Register's answer: what to do next, for which claim, and that claim's mark.
type Registration struct {
	Next  Next
	Claim fence.Claim
	Mark  Mark
}

// Confirm agrees that a claim leads and may raise this mark now, and returns the claim with its
// issuer, holder and candidate. It may be called more than once.
type Confirm func(ctx context.Context, m Mark) (fence.Claim, error)

// Store is the database, where marks live and sessions end. Each method is atomic at the database,
// so any number of guards may call any of them at any time, and may stop between any two.
//
// Every method returns a refusal (*fence.Refusal) for what the database decided, and another error
// if the database could not be asked. After such an error the call may or may not have taken
// effect. All five are safe to repeat.
type Store interface {
	// Register admits a session in one transaction, which no Raise of these resources can overlap. It
	// checks that
	//
	//   - the session belongs to this run of the server,
	//   - for every claim the mark is confirmed, and is exactly the claim's token and issuer,
	//   - the list of sessions is complete, and none of them is under another token.
	//
	// Then it records the session. If a check fails it records nothing and says what to do next.
	//
	// Refusals: ErrNotAuthorized for any claim comes first (Authorizer), then ErrStale and
	// ErrOtherIssuer (also if the mark's issuer was rolled back), with the claim's mark in the
	// Registration; ErrNotInstalled. A *SetupError means that the session leads to another server than
	// the store's.
	Register(ctx context.Context, s SessionID, claims []fence.Claim) (Registration, error)

	// Raise raises the mark to the claim, durably before it returns, and returns the mark before. If
	// the mark is the claim's already, Raise confirms it. Refusals: ErrOtherIssuer, ErrNotInstalled.
	//
	// It never lowers a mark. If confirm agrees to a claim that is Below the mark, the coordinator was
	// rolled back. Then Raise writes that down with the mark, durably, and refuses the claim and
	// whatever else is of that issuer (ErrOtherIssuer), until Adopt.
	//
	// Raise reads what the raise depends on, and calls confirm with the mark. It then raises to the
	// claim that confirm returns, but only if neither the run of the server nor the mark has changed
	// since the read; otherwise it starts over. So a raise that is delayed or repeated has no effect
	// after a restart or a rollback of the store, where it would bring a deposed leader's mark back.
	// Raise returns an error of confirm as it is.
	//
	// before.Sessions is how many older sessions there are to revoke, or zero if the store cannot
	// tell.
	//
	// A store that has lost its list of sessions ends every session that could have been in it, here
	// or in Revoke, except for the newcomer, which is about to be registered. The newcomer is the zero
	// Session if there is none. If it has only a User, the mark is raised on behalf of a session of
	// that user that is not registered: ErrNotAuthorized if the user may not claim the resource.
	Raise(ctx context.Context, newcomer SessionID, c fence.Claim, confirm Confirm) (before Mark,
		err error)

	// Revoke ends every session of the resource that is not under the claim. It returns how many, once
	// the database itself says that they are gone. It also tells those to end that were let go, of
	// whatever resource, and does not wait for them. If the claim is no longer the mark it does
	// nothing (ErrStale). ErrUnrevoked means that some did not end before ctx did, or that this role
	// may not end them; the detail names them.
	Revoke(ctx context.Context, newcomer SessionID, c fence.Claim) (ended int, err error)

	// Release removes from the list those of these sessions that are gone, if the database says so,
	// and lets those go that are proved to be at rest. It returns those that were let go, now or
	// before, and still live. A session that is let go no longer counts as one of a resource, so
	// newcomers need not wait for its end. But it stays on a list of its own until the database has
	// lost it, and each later Revoke of any resource ends those who are on that list. Any other live
	// session stays.
	Release(ctx context.Context, all ...Departed) (leaving []SessionID, err error)

	// Marks reads the marks of these resources, or of all if none is named, sorted by resource. It
	// leaves out those that no term has raised. It is part of this interface because a guard needs it
	// to say why a session was ended, and to tell whether it is ready.
	Marks(ctx context.Context, only ...fence.Resource) ([]Mark, error)
}

// Admin is what an operator does with a store.
type Admin interface {
	// Adopt starts the count of a new issuer for a resource. It ends every session of the resource,
	// sets issuer and token (which may be lower than the mark), and records the change and by in the
	// store's own audit. It returns the mark before. With the token 0 the first token of the new
	// issuer raises the mark.
	Adopt(ctx context.Context, c fence.Claim, by string) (before Mark, err error)
}
