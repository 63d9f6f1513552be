package markstest

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// Harness opens stores for the contract.
type Harness struct {
	// Open returns a store that is installed and has no marks. It is called once for each check and
	// cleans up with t.Cleanup. Calls may share a server if a check cannot observe anything of an
	// earlier one.
	Open func(t testing.TB) Instance
}

// Instance is a store under test and its database.
type Instance struct {
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
	// Admin still work afterwards. It is nil when the harness cannot do that.
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
	Session() marks.Session
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

// Run runs every check of the contract as a subtest.
func Run(t *testing.T, h Harness) {
	for _, c := range contract {
		t.Run(c.sentence, func(t *testing.T) { c.holds(newKit(t, h.Open(t))) })
	}
}

// check is one sentence of the contract. Its function takes a testing.TB instead of a *testing.T,
// so that the package's own test can run it on a bad store and see it fail.
type check struct {
	sentence string
	holds    func(k *kit)
}

var contract = flatten(
	registerChecks, raiseChecks, issuerChecks, severalChecks, revokeChecks, releaseChecks,
	marksChecks, restartChecks, randomChecks, admissionChecks,
)

func flatten(groups ...[]check) []check {
	var all []check
	for _, g := range groups {
		all = append(all, g...)
	}
	return all
}
