// Command leader runs a command as the leader of a resource, one process at a time across machines,
// and shows the state of elections. `leader --help` says how to use it; this says how `leader run`
// works.
//
// # The life of a run
//
//	campaign ──elected──▶ raise the mark on every store ──▶ acknowledge ──▶ start the command
//	  ▲                             │ failed                                     │
//	  └── transient: resign, wait ──┤                                        supervise
//	                                └─ permanent: explain, exit                  │
//	                                                   it ended by itself, or must stop
//	                                                                             ▼
//	exit ◀── resign ◀── nothing of it is left ◀── KILL ◀── at most the grace ◀── TERM
//
// fence.Lead does the outer part, so leader gives the term up only after the command is gone.
// Package supervise starts the command, decides when it must stop, and ends it.
//
// # The life of a task
//
// Package tasks does all of `leader task`.
package main
