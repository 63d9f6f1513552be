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
// Processes freeze, so an Invoke may be written long before the operation is sent, and a Return long after its answer came.
// An operation's true time lies within the two, and only that is ever concluded: "acknowledged before it was sent" means a
// Return before an Invoke. The order of commits, where it matters, is the database's own. What has no answer may have landed,
// unless the evidence says which; and what was refused may still have lifted the mark when its session was let in.
//
// Tokens are compared within one issuer; those of an issuer whose first term is later are newer.
//
// Valid needs every invariant and every demand of the header; a run with no change of leadership, no stale attempt or too
// little load is Unknown at best. A violation makes it Invalid, whatever doubts there are.
package check
