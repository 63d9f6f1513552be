package fence

import (
	"context"
	"io"
)

// Candidate is one entry in an election's queue.
type Candidate struct {
	Token Token `json:"token"` // of its term once it leads; no store admits it before
	// random: no other candidate ever has it, whatever happens to the coordinator
	ID     string `json:"id"`
	Holder string `json:"holder"`
	Ready  bool   `json:"ready"` // it leads and has acknowledged: the mark is raised on its stores
}

// Elector wins terms.
type Elector interface {
	// Campaign enters holder into the election of a resource and waits until it leads or ctx ends. It
	// keeps trying after disconnections and lost sessions. The coordinator has confirmed the term that
	// Campaign returns after the win. ctx bounds the campaign, not the term. CheckHolder says which
	// names a holder may have.
	//
	// Errors: ctx's cause, ErrBadResource, ErrBadHolder, or an error of the coordinator that retrying
	// cannot fix, such as wrong credentials. After an error the session timeout removes what is left
	// of the campaign.
	Campaign(ctx context.Context, r Resource, holder string) (*Term, error)

	// Depose ends the term or candidacy with exactly this token, whoever holds it. It returns false if
	// there is none.
	Depose(ctx context.Context, r Resource, t Token) (bool, error)
}

// Observer reads elections. It needs no candidacy of its own.
type Observer interface {
	// Issuer returns the identity of the coordinator, which stays the same as long as its counter
	// does.
	Issuer(ctx context.Context) (Issuer, error)

	// Candidates lists the candidates of an election, oldest token first; the first one leads. The
	// list shows every election that ended before the call. It is empty if nobody takes part.
	Candidates(ctx context.Context, r Resource) ([]Candidate, error)

	// Leaders returns the current issuer, and the current leader of each resource in the order
	// given: a zero Candidate where nobody leads. Ready may be false in either case; Candidates has
	// it.
	//
	// It is a linearizable read. There was one moment after the call began at which the issuer and
	// all named leaders were as returned. For a resource without a leader there was a moment after
	// the call began at which nobody led it. A server that lags or has lost its ensemble, a
	// coordinator that was replaced, and an issuer that was renewed give no older answer. So
	// Leaders never names a term that was lost before the call.
	//
	// Every admission calls it, so it should cost one round trip while nothing changes.
	Leaders(ctx context.Context, rs ...Resource) (Issuer, []Candidate, error)

	// Watch calls each with the candidates now and again after every change, until ctx ends or each
	// returns an error, which Watch returns. It may merge changes in quick succession. It survives
	// disconnections.
	Watch(ctx context.Context, r Resource, each func([]Candidate) error) error
}

// IssuerRenewer gives a coordinator a new identity, as if it had been built anew. An operator needs
// it after the coordinator was restored from a backup, because its counter then issues numbers
// twice.
type IssuerRenewer interface {
	// RenewIssuer returns the new issuer, which the coordinator has never had before. Calls of
	// Issuer and Leaders that begin after it has returned name no earlier issuer, on any client.
	// Terms won from then on belong to the new issuer; earlier claims keep the old issuer, so an
	// operator adopts each resource. A database session carries only a number, so stop all leaders
	// of the old issuer first.
	//
	// After an error the issuer may have been renewed; call RenewIssuer again.
	RenewIssuer(ctx context.Context) (Issuer, error)
}

// Coordinator is where elections are held, such as a ZooKeeper ensemble. Close ends its
// connections, waits for its goroutines, and loses the terms that were won through it.
type Coordinator interface {
	Elector
	Observer
	IssuerRenewer
	io.Closer
}
