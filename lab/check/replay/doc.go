// Package replay replays the steps of a history against the rules by which the models in model/
// take them. A run breaks a rule even if nothing stale was written: its steps came in an order that
// the model does not have. Each rule is named after the step of the model that it judges.
//
//	raise     1   a mark never goes down under one issuer
//	register  2   a guard records a session only under the mark, as it was raised in this run of the server,
//	              while the registry is complete and no session under another token is recorded
//	open      10  the gate is opened only for the mark, and while no session under another token is recorded
//	forget    3   a backend commits nothing after its record was removed
//	write     5   nothing is committed in a session once a newer token was let in
//	enter     10  nor in a transaction, and only under a token whose gate was opened; a session that records
//	              itself has entered, too
//	elected   7   a worker raises a mark only to a token that it has won
//	mine      22  only the worker that has a job goes on with it
//
// The numbers are those of the invariants in ARCHITECTURE.md. The steps of Postgres are in the
// order of its commits, so no clock decides. elected compares the times of one worker, and mine the
// versions of a status.
//
// Tokens of one issuer are compared as numbers, and otherwise by when they were first raised.
package replay
