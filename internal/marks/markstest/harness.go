package markstest

import (
	"context"
	"testing"

	"github.com/ringfence/ringfence/fence"
	"github.com/ringfence/ringfence/internal/marks"
)

// Harness opens stores for the contract.
type Harness struct {
	// Open gives a store that is installed and has no marks. It is called once for each check, cleans up after itself
	// with t.Cleanup, and may share one server between calls as long as nothing of an earlier check is seen.
	Open func(t testing.TB) Instance
}

// Instance is a store under test and the database it lives in.
type Instance struct {
	Store marks.Store
	Admin marks.Admin

	// Connect opens a real client session of the database, which is not registered.
	Connect func(t testing.TB) Conn

	// Written lists every value that Conn.Write or a finished transaction has stored, in the order in which the
	// database took them.
	Written func(t testing.TB) []string

	// Audit lists what Adopt has recorded for a resource, oldest first.
	Audit func(t testing.TB, r fence.Resource) []Adoption

	// Restart ends the server and starts it again with its data and another identity; Store and Admin go on working.
	// Nil when the harness cannot do that.
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
	// Session names it as the store knows it.
	Session() marks.Session
	// Write stores a value at once, and returns nil only when the database has said so. It fails when the session was
	// ended, and does not open another.
	Write(ctx context.Context, value string) error
	// Leave writes a value in a transaction that it leaves open. Nothing else is done with the session after that.
	Leave(ctx context.Context, value string) error
	// Close ends the session and returns once the database no longer has it. It may be called twice, and after the
	// store has ended the session.
	Close()
}

// Run checks the whole contract.
func Run(t *testing.T, h Harness) {
	for _, c := range contract {
		t.Run(c.sentence, func(t *testing.T) { c.holds(newKit(t, h.Open(t))) })
	}
}

// check is one sentence of the contract. Its function gets a testing.TB and not a *testing.T, so that our own test can
// see a check fail for a store that is known to be bad.
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
