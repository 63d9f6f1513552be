package supervise

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent has the kernel kill the command when the thread that has started it ends, so that a killed leader
// leaves no command behind. It does not reach processes that the command has started.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// finish waits for the command to end, kills the rest of its group, and reaps it, in this order: until it is reaped its
// number, which is the group's, cannot become another's.
func (c *Child) finish() {
	for {
		err := unix.Waitid(unix.P_PID, c.pgid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.killGroup()
	_ = c.cmd.Wait()
}

// groupLives tells whether the group has a member that is not a zombie. Zombies do nothing, and whoever has to reap
// them may be slow or absent.
func groupLives(pgid int) bool {
	if errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) {
		return false
	}
	for _, p := range Processes() {
		if p.Group == pgid && !p.Dead() {
			return true
		}
	}
	return false
}
