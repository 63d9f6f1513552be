package marks

import (
	"context"
	"time"

	"github.com/ringfence/ringfence/fence"
)

// Session names one database connection in the database's own terms. ID alone does not: it is used again.
type Session struct {
	ID    int64  // Postgres: backend pid. Redis: client id
	Birth string // Postgres: backend_start. Redis: empty, for an id is not used again in one run
	Run   string // the run of the server that the connection leads to, as that connection itself told it
}

// Mark is the highest token that a store has accepted for a resource. It never goes down under one issuer.
type Mark struct {
	Resource fence.Resource `json:"resource"`
	Token    fence.Token    `json:"token"` // 0: no term has raised it yet
	Issuer   fence.Issuer   `json:"issuer"`
	Holder   string         `json:"holder"` // who raised it, for people
	Raised   time.Time      `json:"raised_at"`
	Sessions int            `json:"sessions"` // registered now; filled in by Marks when it reads all, and by Raise

	// Confirmed is true when the mark was raised on this very run of the server, by a record that is no copy. Otherwise
	// it may have been lost or set back since. A raise confirms it.
	Confirmed bool `json:"confirmed"`

	// Continued is true when nothing shows that the mark went back: the server is the one that it was raised on, and its
	// record is no copy. A restart leaves it true. So does the return of an older disk snapshot, which looks alike, and so
	// it proves less than Confirmed.
	Continued bool `json:"continued"`

	// Adoption names the last adoption by an operator; empty when there was none.
	Adoption string `json:"-"`
}

// Next is what Register found missing.
type Next int

const (
	Admitted   Next = iota // nothing: the session is registered
	MustRaise              // the mark is below the claim, or not confirmed
	MustRevoke             // the mark is the claim's, but sessions that are not under it may still live
)

// Registration is Register's answer: what to do next, for which claim, and the mark that claim met.
type Registration struct {
	Next  Next
	Claim fence.Claim
	Mark  Mark
}

// Confirm says that a claim may raise this mark now, and returns the claim with its issuer and holder. It may be called
// more than once.
type Confirm func(ctx context.Context, m Mark) (fence.Claim, error)

// Store is the database itself, where marks live and sessions end. Each method is atomic at the database, so any
// number of guards may call any of them at any time, and may stop between any two.
//
// It has five methods: Marks is here because the reason for a revocation and a guard's readiness need it.
//
// Every method returns refusals (*fence.Refusal) for what the database judged, and other errors when the database
// could not be asked; after the latter the call may or may not have taken effect, and all five are safe to repeat.
type Store interface {
	// Register admits a session: in one transaction, which no Raise of these resources can overlap, it sees that the
	// session is one of this run of the server, that for every claim the mark is confirmed and is exactly the claim's token
	// and issuer, that the list of sessions is complete, and that none of them is under another token; then it records the
	// session. If something is missing it records nothing and says what.
	// Refusals: ErrStale and ErrOtherIssuer for any claim come before everything else, with the mark that was met in
	// the Registration; ErrNotInstalled. A *SetupError: the session leads to another server than the store's.
	Register(ctx context.Context, s Session, claims []fence.Claim) (Registration, error)

	// Raise lifts the mark to the claim, durably before it returns, and returns the mark as it was. A mark that is the
	// claim's already is confirmed. It never lowers one: ErrStale. Other refusals: ErrOtherIssuer, ErrNotInstalled.
	//
	// It reads what the raise depends on, then calls confirm with the mark as it is, and then raises to the claim that
	// confirm returns, only if nothing of what it had read has changed: neither the run of the server nor the mark.
	// Otherwise it begins anew. So a raise that is held up on its way, or sent again, does not count once the store was
	// restarted or set back: it would bring a deposed leader's mark back. An error of confirm ends it and is returned.
	//
	// before.Sessions says that there are older sessions to revoke. A store that cannot tell leaves it zero.
	//
	// A store that has lost its list of sessions ends every session that could have been in it, here or in Revoke. The
	// newcomer, which is about to be registered, is spared; it is the zero Session where there is none.
	Raise(ctx context.Context, newcomer Session, c fence.Claim, confirm Confirm) (before Mark, err error)

	// Revoke ends every session of the resource that is not under the claim, and returns once the database itself says
	// that they are gone, with their number. It does nothing when the claim is no longer the mark (ErrStale).
	// ErrUnrevoked: some did not end before ctx did, or may not be ended by this role; the detail names them.
	Revoke(ctx context.Context, newcomer Session, c fence.Claim) (ended int, err error)

	// Release forgets a session once the database says that it is gone; one that still lives stays registered.
	Release(ctx context.Context, s Session) error

	// Marks reads the marks of these resources, or of all when none is named, by resource. One that no term has ever
	// raised is left out.
	Marks(ctx context.Context, only ...fence.Resource) ([]Mark, error)
}

// Admin is what an operator does with a store.
type Admin interface {
	// Adopt starts a new issuer's count for a resource: it ends every session of the resource, sets issuer and token
	// (which may be lower than the mark was), and records old, new and by in the store's own audit. It returns the
	// mark as it was. The claim's token 0 means that the first token of the new issuer will raise the mark.
	Adopt(ctx context.Context, c fence.Claim, by string) (before Mark, err error)
}
