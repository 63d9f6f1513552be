// Package worker is the program under test: a leader as an application would write it with the client embedded, that
// keeps a ledger in Postgres and one in Redis, and that may be told to behave badly.
//
// It says what it does as a history, one event on each line of its standard output, each written before it goes on.
// Signals steer it:
//
//	TERM   end: finish the operation, give the term up
//	USR1   stop inside the next transaction (Fault "inside", State begin is said when it stands there), until USR2
//	USR2   go on; with LAB_CLOCK_JUMP: the injected wall clock jumps
//
// # What it knows of a write
//
// The checker takes a Return at its word, so a worker says no more than it can know (outcome.go):
//
//	before COMMIT or the script was sent    nothing has landed: stale, refused or failed
//	the answer to it                        ok, or failed where the server itself says that it did nothing
//	anything else in the answer's place     unknown: a broken connection, a timeout, and RF001 or STALETOKEN too, which a
//	                                        guard says when it ends a session, whatever its last command has done
//	a raise that was refused                unknown, but for an issuer or store that does not fit: a mark may be raised before
//	                                        the refusal
package worker
