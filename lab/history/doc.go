// Package history is what a run leaves behind: one event on each line of a file (JSON Lines), from which the run is
// checked and reported, now or years later.
//
// Events come from three kinds of witness:
//
//	workers     what a process under test believed and was told: Invoke before it sends, Return when it knows
//	the lab     what was done to the system: Fault
//	databases   what is so: Evidence, Effect, Publish and Mark, read after the run, in the order of commits
//
// A process that is killed leaves an Invoke without a Return. That is an unknown outcome, and not a failure.
//
// Times are CLOCK_MONOTONIC of the one machine that the whole run takes place on, containers included: it cannot be
// set, and all processes share it. The order of commits never comes from it, but from the databases.
package history
