// Package lab tries to get a stale write in. A Scenario says which system is built, what its leaders do and which faults
// hit it; Run carries it out on a System and writes a history; package check judges the history.
//
//	build     ZooKeeper, Postgres, Redis, guards, workers (System)
//	warm up   until a leader has written often enough to count
//	faults    one after the other, each with its begin, its condition for going on, and its end
//	heal      everything runs and is connected again; a new write has to succeed within the bound (I6)
//	coda      the leader is deposed by an operator, so that no run is without a change of leadership and a stale attempt
//	collect   workers stop; the databases are asked what they hold, in the order of commits
//
// The lab is a module of its own and links into no program of a user's. Bugs that it seeds to see itself catch them
// (package flaw) are built from the product's parts, wired wrongly, outside the product.
package lab
