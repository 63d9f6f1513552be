// Package checkpointtest has the contract that every journal must pass, and Memory, a reference
// journal in memory. The test of a new journal calls Run, and RunTransactor if the journal has
// transactions:
//
//	func TestContract(t *testing.T) {
//		checkpointtest.Run(t, func(t *testing.T) checkpointtest.Fixture {
//			return checkpointtest.Fixture{Journal: …, Second: …, Lead: …}
//		})
//	}
//
// The contract uses only checkpoint.Journal, opened twice on one storage, and leaders that the
// fixture makes and deposes.
package checkpointtest
