// Package fencetest holds the contract that every coordinator passes (Run), and a coordinator in
// memory (Memory) that passes it too: the reference model, and a coordinator for the tests of
// whatever is built on fence.
//
// A new coordinator is one folder with one test of this form:
//
//	func TestContract(t *testing.T) {
//		fencetest.Run(t, fencetest.Harness{
//			Open: func(t testing.TB) fence.Coordinator { … a client of its own, as if in its own process … },
//			Alone: …, // two clients of a coordinator that no other test uses
//			SessionTimeout: 10 * time.Second,
//			Cut: …, Heal: …, // as many faults as the test can make
//		})
//	}
package fencetest
