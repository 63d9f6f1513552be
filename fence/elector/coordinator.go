package elector

import (
	"context"
	"io"

	"github.com/ringfence/ringfence/fence"
)

// Candidate is one entry in an election's queue.
type Candidate struct {
	Token fence.Token `json:"token"` // of its term once it leads; no store admits it before
	// random: no other candidate ever has it, whatever happens to the coordinator
	ID     string `json:"id"`
	Holder string `json:"holder"`
	Ready  bool   `json:"ready"` // it leads and has acknowledged: the mark is raised on its stores
}

// Observer reads elections. It needs no candidacy of its own.
type Observer interface {
	// Issuer returns the identity of the coordinator, which stays the same as long as its counter
	// does.
	Issuer(ctx context.Context) (fence.Issuer, error)

	// Candidates lists the candidates of an election, oldest token first; the first one leads. The
	// list shows every election that ended before the call. It is empty if nobody takes part.
	Candidates(ctx context.Context, r fence.Resource) ([]Candidate, error)

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
	Leaders(ctx context.Context, rs ...fence.Resource) (fence.Issuer, []Candidate, error)

	// Watch calls each with the candidates now and again after every change, until ctx ends or each
	// returns an error, which Watch returns. It may merge changes in quick succession. It survives
	// disconnections.
	Watch(ctx context.Context, r fence.Resource, each func([]Candidate) error) error
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
	RenewIssuer(ctx context.Context) (fence.Issuer, error)
}

// Coordinator is where elections are held, such as a ZooKeeper ensemble. Close ends its
// connections, waits for its goroutines, and loses the terms that were won through it.
type Coordinator interface {
	fence.Elector
	Observer
	IssuerRenewer
	io.Closer
}

// Unverified is the issuer of all tokens at a guard without a coordinator.
const Unverified fence.Issuer = "unverified"
