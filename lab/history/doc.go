// Package history defines what a run leaves behind: one event on each line of a file (JSON Lines).
// The checker and the report read nothing else, now or years later.
//
// Events have three kinds of source:
//
//	workers     what a process under test believed and was told: Invoke before it sends an
//	            operation, Return when it knows the outcome
//	the lab     what was done to the system: Fault
//	databases   what they hold: Evidence, Effect, Publish, Mark, and in Postgres each step of the
//	            fence: Fence; read after the run, in the order of commits; and the coordinator, of
//	            jobs: Job
//
// A process that is killed leaves an Invoke without a Return. Its outcome is unknown, which is not
// a failure.
//
// Times are CLOCK_MONOTONIC of the one machine on which the whole run takes place, containers
// included. Nobody can set that clock, and all processes share it. The order of commits never comes
// from it: it comes from the databases.
package history
