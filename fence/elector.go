package fence

import (
	"context"
	"io"
)

// Candidate is one entry in an election's queue.
type Candidate struct {
	Token  Token  `json:"token"` // the number its term has once it leads; worth nothing before that
	Holder string `json:"holder"`
	Ready  bool   `json:"ready"` // it leads and has acknowledged: the mark is raised on its stores
}

// Elector wins terms.
type Elector interface {
	// Campaign enrols holder for a resource and waits, through disconnections and lost sessions, until it leads or ctx
	// ends. The term it returns was confirmed by the coordinator after the win. ctx bounds the campaign, not the term.
	// Errors: ctx's cause, ErrBadResource, or a refusal of the coordinator that waiting cannot mend (credentials,
	// permissions). After any error nothing of the campaign is left but what the session timeout removes.
	Campaign(ctx context.Context, r Resource, holder string) (*Term, error)

	// Depose ends the term or candidacy with exactly this token, whoever holds it. It reports false when there is none.
	Depose(ctx context.Context, r Resource, t Token) (bool, error)
}

// Observer tells how elections stand. It needs no candidacy of its own.
type Observer interface {
	// Issuer is the identity of the coordinator. It never changes for as long as its counter goes on.
	Issuer(ctx context.Context) (Issuer, error)

	// Candidates lists the queue of an election, oldest token first; the first one leads. It is as fresh as the
	// coordinator can make it: no election that ended before the call is missed. Nobody enrolled is an empty list.
	Candidates(ctx context.Context, r Resource) ([]Candidate, error)

	// Leaders returns the issuer as it is now, and who leads each of these resources now, in the order
	// given: a zero Candidate where nobody does. Ready may be left false; ask Candidates for it.
	//
	// It is a linearizable read. The issuer and all leaders that it names were so at one moment after
	// the call began; that nobody leads a resource was so at a moment after the call began. A server
	// that has lost its ensemble or lags behind, a coordinator that was replaced, or an issuer that was
	// renewed never gives an older answer. So a term that was lost before the call is not named.
	//
	// Every admission asks, so it should cost one round trip while nothing changes.
	Leaders(ctx context.Context, rs ...Resource) (Issuer, []Candidate, error)

	// Watch calls each with the queue as it is and again after changes of it, until ctx ends or each returns an error,
	// which it returns. Changes that follow each other quickly may be seen as one. It rides out disconnections.
	Watch(ctx context.Context, r Resource, each func([]Candidate) error) error
}

// IssuerRenewer makes a coordinator another issuer, as if it had been built anew. It is for an operator who has restored
// the coordinator from a backup: its counter then gives out numbers a second time.
type IssuerRenewer interface {
	// RenewIssuer returns the new issuer, which the coordinator has never had before. Every client of the coordinator
	// hears of it: no Issuer and no Leaders that begins after the call has returned names an earlier one. Terms that are
	// won from then on are the new issuer's; earlier claims keep the old issuer, so each resource has to be adopted. A
	// database session names a number alone, so all leaders of the old issuer have to be stopped first.
	// After an error it may have happened; call it again.
	RenewIssuer(ctx context.Context) (Issuer, error)
}

// Coordinator is ZooKeeper or etcd: the place where elections are held. Close ends its connections, waits for its
// goroutines, and loses the terms that were won through it.
type Coordinator interface {
	Elector
	Observer
	IssuerRenewer
	io.Closer
}
