// Package worker is the program under test: a leader as an application would write it with the client embedded, that
// keeps a ledger in Postgres and one in Redis, and that may be told to behave badly.
//
// It says what it does as a history, one event on each line of its standard output, each written before it goes on.
// Signals steer it:
//
//	TERM   end: finish the operation, give the term up
//	USR1   stop inside the next transaction (Fault "inside", State begin is said when it stands there), until USR2
//	USR2   go on; with LAB_CLOCK_JUMP: the injected wall clock jumps
package worker
