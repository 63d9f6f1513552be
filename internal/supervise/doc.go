// Package supervise runs a command for as long as a term lasts, and ends it, with its whole process
// group, before another leader may be let in.
//
//	child := &supervise.Child{Reaper: reaper}
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
// It is told the term and what to do while the coordinator is out of reach. It knows no store, no
// coordinator and no task. The Supervisor decides when the command must stop; the Child knows how
// to start and end a process group.
//
// # When the command must stop
//
//	the term is lost: deposed, superseded      TERM, the grace, KILL
//	the term is lost: expired                  KILL at once: another leader may be at work already
//	the deadline is near, and no word of the   TERM, and KILL so that the command is gone before the
//	coordinator                                deadline, which is the earliest moment at which the
//	                                           coordinator may let another leader in
//	LEADER_ON_DISCONNECT=stop and out of reach the same, at once
//
// None of this is what keeps writes safe: a machine can be paused between any two of these steps.
// The store refuses what comes too late.
//
// # What the kernel does for it
//
// The command runs in a process group of its own, and signals go to the whole group. On Linux the
// kernel kills the command when leader itself is killed; that holds for the command, not for
// processes which it has started, and on other systems not at all: such an orphan goes on and is
// contained by the fence alone. A process that leaves the group (setsid, a daemon) escapes in the
// same way.
package supervise
