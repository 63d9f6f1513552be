// Package worker is the program under test: a leader as an application would write it, with the
// client embedded. It keeps a ledger in Postgres and one in Redis, and can be made to behave badly.
// On the path SQL it keeps only the one in Postgres, and leads by the functions of docs/sql.md.
//
// It writes a history of what it does to its standard output, one event per line, and writes each
// event before it continues. Signals control it:
//
//	TERM   end: finish the operation, give up the term
//	USR1   stop inside the next transaction until USR2; that is recorded (Fault "inside")
//	USR2   continue; with LAB_CLOCK_JUMP: the injected wall clock jumps
//
// # What it knows about a write
//
// The checker trusts every Return, so a worker claims no more than it can know (outcome.go):
//
//	an error before COMMIT or the    not committed: stale, refused or failed
//	script was sent
//	the answer to it                 ok; or failed, if the server says that it did nothing
//	anything else in its place       unknown: a broken connection, a timeout, but also RF001 and
//	                                 STALETOKEN: a guard sends them when it ends a session, whatever
//	                                 the last command has done
//	a refused raise                  unknown, because a mark may be raised before the refusal; but
//	                                 refused for a wrong issuer or store
package worker
