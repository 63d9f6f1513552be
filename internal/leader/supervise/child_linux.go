package supervise

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithParent makes the kernel kill the command when the thread that has started it ends, so a
// killed leader leaves no command behind. It does not affect processes that the command has
// started.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

// finish waits for the command to end, ends the rest of its group, and reaps it, in this order.
// Until the command is reaped, no other group can get its number.
func (c *Child) finish() {
	for {
		err := unix.Waitid(unix.P_PID, c.pgid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.dismiss()
	c.killGroup()
	_ = c.cmd.Wait()
}

// groupLives reports whether the group has a member that is not a zombie. Zombies do nothing, and
// their parent may be slow to reap them, or never do it.
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
