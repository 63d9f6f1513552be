// Package check judges a history. Its invariants (lab/README.md says them in full):
//
//	I1  per store, tokens never go down in the order of commits
//	I2  nothing is acknowledged under a token when a newer one was acknowledged before it was sent
//	I3  what was acknowledged is there, once; what was refused is not
//	I4  synchronous effects exactly once and in order; asynchronous ones at least once; the checkpoint never goes back
//	I6  when all is healed somebody leads, and writes, within the bound
//	I7  faults and writes overlapped; otherwise the run does not count
//
// and the model of the guard: a register that only rises, checked for linearizability with porcupine, which also finds a
// rightful leader that was refused.
//
// Valid needs every invariant and every demand of the header; a run with no change of leadership, no stale attempt or too
// little load is Unknown, whatever else it shows.
package check
