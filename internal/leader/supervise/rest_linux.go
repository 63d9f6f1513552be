package supervise

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ringfence/ringfence/internal/process"
)

// signalRest sends a signal to what is left of the command, and returns what that is: its group, what is
// in its control group, and orphans. Signal 0 only looks. An orphan that another command may have
// started gets none before that command has ended, too.
func (c *Child) signalRest(s syscall.Signal) (left []process.Process) {
	inside := c.cgroup.pids()
	noGroup := c.emptied || errors.Is(syscall.Kill(-c.pgid, 0), syscall.ESRCH)
	if noGroup && len(inside) == 0 && process.NoOrphans() {
		return nil
	}
	all := process.List()
	for _, p := range all {
		if p.Dead() || p.Start < c.began {
			continue
		}
		sure := p.Group == c.pgid && !noGroup || inside[p.Pid]
		if !sure {
			if !p.Orphan || c.cgroup.inAnother(p) {
				continue
			}
			sign := signOf(p)
			if sign != "" && sign != c.sign {
				continue
			}
			sure = sign != "" || !slices.ContainsFunc(all, func(o process.Process) bool { return c.mayShare(o, p) })
		}
		if sure {
			_ = p.Signal(s)
		}
		left = append(left, p)
	}
	return left
}

// signOf returns the sign of the command of this program that has started the process. It is empty if that is not
// to be seen, as for a process of another user.
func signOf(p process.Process) string {
	environ, _ := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/environ")
	for entry := range strings.SplitSeq(string(environ), "\x00") {
		if strings.HasPrefix(entry, signs) {
			return entry
		}
	}
	return ""
}

// mayShare reports whether an orphan may be of another command.
func (c *Child) mayShare(other, orphan process.Process) bool {
	return other.Child && other.Pid != c.pgid && other.Start <= orphan.Start
}

// isEmpty reports whether no process of the group is among these. Then another group may get its number.
func (c *Child) isEmpty(left []process.Process) bool {
	return !slices.ContainsFunc(left, func(p process.Process) bool { return p.Group == c.pgid })
}

// startOf returns when a process that is not reaped was started.
func startOf(pid int) uint64 {
	p, _ := process.Find(pid)
	return p.Start
}
