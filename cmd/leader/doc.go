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
// fence.Lead does the outer part, so that the term is given up only after the command is gone. The supervisor
// (supervise.go) decides when the command must stop, the child (child.go) knows how to start and end a process group.
//
// # When the command must stop
//
//	the term is lost: deposed, superseded      TERM, the grace, KILL
//	the term is lost: expired                  KILL at once: another leader may be at work already
//	the deadline is near, and no word of the   TERM, and KILL so that the command is gone before the deadline, which is
//	coordinator                                the earliest moment at which the coordinator may let another leader in
//	LEADER_ON_DISCONNECT=stop and out of reach the same, at once
//
// None of this is what keeps writes safe: a machine can be paused between any two of these steps. The store refuses
// what comes too late; see package store.
//
// # What the kernel does for it
//
// The command runs in a process group of its own, and signals go to the whole group. On Linux the kernel kills the
// command when leader itself is killed; that holds for the command, not for processes which it has started, and on
// other systems not at all: such an orphan goes on and is contained by the fence alone. A process that leaves the group
// (setsid, a daemon) escapes in the same way.
//
// # The life of a task
//
// `leader task` hands all of it to package checkpoint: who leads, what the next step is, when it is tried again. What is
// here are the steps of a file: SQL in the transaction of the checkpoint (sqlstep.go), commands under the supervisor above
// (shellstep.go), Redis commands under the token (redisstep.go); where checkpoints are kept (journals.go); and what a
// person sees (report.go, bar.go). That a command was stopped for the term's sake is never its step's failure: it is run
// again when the coordinator is back in time, and otherwise by the next leader.
package main
