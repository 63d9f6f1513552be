package supervise

import (
	"errors"
	"slices"
	"syscall"

	"github.com/ringfence/ringfence/internal/process"
)

// signalRest sends a signal to what is left of the command, and returns what that is: its group,
// what is in its control group, and orphans. Signal 0 only looks. An orphan that another command
// may have started gets none before that command has ended, too.
func (c *Child) signalRest(s syscall.Signal) (left []process.Process) {
	noGroup := c.emptied || errors.Is(syscall.Kill(-c.pgid, 0), syscall.ESRCH)
	if noGroup && !c.mayLeave() {
		return nil
	}
	all, inside := process.List(), c.cgroup.pids()
	for _, p := range all {
		if p.Dead() || p.Start < c.began {
			continue
		}
		sure := p.Group == c.pgid && !noGroup || inside[p.Pid]
		if !sure {
			if !p.Orphan || c.cgroup.inAnother(p) {
				continue
			}
			mark := process.MarkOf(p.Pid)
			if process.IsOwnMark(mark) && mark != c.Mark {
				continue
			}
			sure = mark == c.Mark || !slices.ContainsFunc(all, func(o process.Process) bool {
				return c.mayShare(o, p)
			})
		}
		if sure {
			_ = p.Signal(s)
		}
		left = append(left, p)
	}
	return left
}

// mayLeave reports whether something outside of the group may be left. It costs less than
// signalRest.
func (c *Child) mayLeave() bool { return len(c.cgroup.pids()) > 0 || !process.NoOrphans() }

// mayShare reports whether an orphan may be of another command.
func (c *Child) mayShare(other, orphan process.Process) bool {
	return other.Child && other.Pid != c.pgid && other.Start <= orphan.Start
}

// isEmpty reports whether no process of the group is among these. Then another group may get its
// number.
func (c *Child) isEmpty(left []process.Process) bool {
	return !slices.ContainsFunc(left, func(p process.Process) bool { return p.Group == c.pgid })
}

// itself is the command, until it is reaped.
func (c *Child) itself() process.Process {
	p, _ := process.Find(c.pgid)
	return p
}
