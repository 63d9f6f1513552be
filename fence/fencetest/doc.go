// Package fencetest has the contract that every coordinator must pass (Run), and a coordinator in
// memory (Memory). Memory is the reference model, and serves tests of programs that use fence.
//
// The test of a new coordinator has this form:
//
//	func TestContract(t *testing.T) {
//		fencetest.Run(t, fencetest.Harness{
//			Open: func(t testing.TB) fence.Coordinator { … }, // a client like a separate process
//			Alone: …, // two clients of a coordinator that no other test uses
//			SessionTimeout: 10 * time.Second,
//			Cut: …, Heal: …, // as many faults as the test can make
//		})
//	}
package fencetest
