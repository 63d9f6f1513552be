// Command leader runs a command as the leader of a resource, one process at a time across machines, and tells how
// elections stand. `leader -h` says how to use it; this says how `leader run` works inside.
//
// # The life of a run
//
//	stand ──elected──▶ raise the mark on every store ──▶ acknowledge ──▶ start the command ──▶ supervise
//	  ▲                        │ may pass: resign, wait                                            │
//	  └────────────────────────┘ will not pass: explain, exit                  ended by itself, or │ must stop
//	                                                                                               ▼
//	exit ◀── resign ◀── nothing of its process group is left ◀── KILL ◀── at most the grace ◀── TERM
//
// fence.Lead does the outer part, so that the term is given up only after the command is gone. Package supervise starts the
// command, decides when it must stop, and ends it.
//
// # The life of a task
//
// `leader task` hands all of it to package tasks.
package main
