// Package check judges a history. Its invariants, which lab/README.md explains:
//
//	I1  per store and resource, tokens never go down in the order of commits
//	I2  nothing is acknowledged that was sent under a token after a newer token was acknowledged
//	I3  what was acknowledged is there, once; what was refused is not
//	I4  synchronous effects exactly once and in order; asynchronous ones at least once; the
//	    checkpoint never goes back
//	I5  every acknowledged job is done, with each of its effects; it ends once, and not under an
//	    attempt that is over; no two steps of its life replace one status
//	I6  once all faults have ended, somebody leads and writes, within the bound
//	I7  faults and writes overlapped; otherwise the run does not count
//	I8  a coordinator that has gone back lets nobody write, until an operator acts
//
// Package replay judges the steps of the fence by the rules of the models. Check also checks the
// guard against a model with porcupine: a register that only rises, checked for linearizability.
// That also finds a rightful leader that was refused.
//
// Processes freeze, so an Invoke may be written long before the operation is sent, and a Return
// long after its answer came. The true time of an operation lies between the two, and the checker
// concludes nothing more: "acknowledged before it was sent" means a Return before an Invoke. Where
// the order of commits matters, it is the database's own. An operation without an answer may have
// been committed, unless the evidence says which. An operation that was refused may still have
// raised the mark when its session was admitted.
//
// Tokens are compared within one issuer; those of an issuer whose first term is later are newer.
//
// A run is valid if every invariant and every demand of the header holds. Without a change of
// leadership, without a stale attempt, or with too little load, it is unknown at best. A violation
// makes it invalid, whatever doubts there are.
package check
