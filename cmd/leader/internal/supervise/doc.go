// Package supervise runs a command for as long as a term lasts, and ends it, with all that it has
// started, before another leader may be let in.
//
//	child := &supervise.Child{}
//	if err := child.Start(argv, env, os.Stdin, os.Stdout, os.Stderr); err != nil {
//		return err // nothing of it has run
//	}
//	s := &supervise.Supervisor{
//		Child: child, Term: term, Signals: signals, Log: log,
//		Policy: supervise.Pause, Grace: grace, Margin: margin,
//	}
//	stopped := s.Supervise(ctx) // nothing of the command is left now
//	code := child.ExitCode()
//
// The package depends on the term and on a policy for the time while the coordinator is out of
// reach, and on no store, coordinator or task. The Supervisor decides when the command must stop;
// the Child starts a process group, and ends that and what has left it.
//
// # When the command must stop
//
//	the term is lost: deposed, superseded      TERM, the grace, KILL
//	the term is lost: expired                  KILL at once: another leader may already work
//	the deadline is near, and the coordinator  TERM, and KILL in time for the command to be gone
//	does not answer                            before the deadline, which is the earliest moment at
//	                                           which the coordinator may elect another leader
//	LEADER_ON_DISCONNECT=stop and out of reach the same, at once
//
// None of this keeps writes safe, because a machine can be paused between any two of these steps.
// The store refuses late writes.
//
// # What the kernel guarantees
//
// The command runs in its own process group. TERM and forwarded signals go to the command itself,
// which knows in which order its own processes end. What it leaves behind then gets TERM, and KILL
// when the grace is over. STOP, CONT and KILL go to the whole group.
//
// On Linux what has left the group (setsid, a daemon) is found, too: in a control group of the
// command's own, if leader may make one, or as an orphan, which hangs under leader since
// process.AdoptOrphans. An orphan is told from those of other commands by a variable in its
// environment, or, if it has another user, by the times at which it and they were started: in doubt
// it is waited for, and not killed before all that may have started it have ended. leader may kill
// another user's process only in a control group. Supervise waits for what it may not kill as long
// as the term lasts.
//
// On Linux the kernel kills the command when leader itself is killed, unless the command has
// changed its user, but not the processes that the command has started. Other systems kill neither.
// Such an orphan keeps running, and only the fence contains it.
package supervise
