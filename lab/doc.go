// Package lab tries to get a stale write in. A scenario.Scenario says which system is built, what
// its leaders do and which faults hit it. Run carries it out on a system.System and writes a
// history; package check judges the history.
//
//	build         coordinator, Postgres, Redis, guards, workers (package system)
//	warm up       until a leader has written often enough to count (package record)
//	faults        one after the other, each with its beginning, its condition and its end (package inject)
//	recovery      everything runs and is connected again; a new write has to succeed in time (I6)
//	final phase   an operator deposes the leader, so every run has a change of leadership and a
//	              stale attempt
//	collect       workers stop; the lab reads what the databases hold, in the order of commits
//	              (package evidence)
//
// The lab is a separate module and no part of users' programs. The bugs that it seeds to test
// itself (package flaw) are built from the product's parts, wired wrongly, outside the product.
package lab
