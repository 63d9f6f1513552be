// Package fencetest has the contract that every coordinator must pass (Run), and a coordinator in
// memory (Memory). Memory is the reference model, and serves tests of programs that use fence.
//
// The test of a new coordinator has this form:
//
//	func TestContract(t *testing.T) { fencetest.Run(t, fixture(t)) }
//
//	func TestTheContractFindsFlaws(t *testing.T) { fencetest.RunFlaws(t, fixture(t)) }
//
//	func fixture(t *testing.T) fencetest.Fixture {
//		return fencetest.Fixture{
//			Open: func(t testing.TB) elector.Coordinator { … }, // a client like a separate process
//			Alone: …, // two clients of a coordinator that no other test uses
//			SessionTimeout: 10 * time.Second,
//			Cut: …, Heal: …, // as many faults as the test can make
//		}
//	}
//
// The contract consists of clauses. One of them keeps every CPU busy for more than two session
// timeouts, so it runs before the others, which run in parallel.
//
// # Flaws
//
// RunFlaws shows that the contract can fail on this coordinator, with this fixture. A flaw is a
// wrapper around the client that Open returns: a term that counts its deadline from the reply, a
// resignation that only the client remembers, a watch that shows an older queue after a newer one.
// The table of flaws names the clause that must find each of them, and words of the failure, so
// that a clause which fails for another reason proves nothing. A test of this package checks that
// every clause finds a flaw. A new clause therefore comes with a flaw.
package fencetest
