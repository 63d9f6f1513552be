package markstest

import (
	"context"
	"slices"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
	"github.com/ringfence/ringfence/internal/test/contract"
)

// Fixture is a store under test and its database.
type Fixture struct {
	Store marks.Store
	Admin marks.Admin

	// Connect opens a real client session of the database. The session is not registered.
	Connect func(t testing.TB) Conn

	// Written lists every value that Conn.Write or a committed transaction has stored, in the order
	// in which the database accepted them.
	Written func(t testing.TB) []string

	// Audit lists what Adopt has recorded for a resource, oldest first.
	Audit func(t testing.TB, r fence.Resource) []Adoption

	// Restart stops the server and starts it again with its data and another identity. Store and
	// Admin still work afterwards. It is nil where the fixture cannot do that.
	Restart func(t testing.TB)
}

// Adoption is one entry of the store's own audit.
type Adoption struct {
	By            string
	Before, After fence.Token
	From, To      fence.Issuer
}

// Conn is a client's session of the database.
type Conn interface {
	// Session identifies it, as the store does.
	Session() marks.SessionID
	// Write stores a value and returns nil only when the database has confirmed it. It fails when
	// the session has ended, and does not open another.
	Write(ctx context.Context, value string) error
	// Leave writes a value in a transaction and leaves the transaction open. It is the last call
	// before Close.
	Leave(ctx context.Context, value string) error
	// Close ends the session and returns once it has ended in the database. It may be called twice,
	// and after the store has ended the session.
	Close()
}

// Run checks a store against the contract. It calls open once for each clause: for a store that is
// installed and has no marks, and is cleaned up with t.Cleanup. Calls may share a server if a
// clause cannot observe anything of an earlier one.
func Run(t *testing.T, open func(t testing.TB) Fixture) {
	contract.Run(t, clauses, func(t *testing.T) *stage { return newStage(t, open(t)) })
}

var clauses = slices.Concat(
	registerClauses, raiseClauses, issuerClauses, severalClauses, revokeClauses, releaseClauses,
	marksClauses, restartClauses, randomClauses, admissionClauses,
)
