package supervise

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ringfence/ringfence/internal/process"
)

// dieWithParent makes the kernel kill the command when the thread that has started it ends, so a
// killed leader leaves no command behind. It does not affect processes that the command has
// started, and the kernel forgets it when the command changes its user (prctl(2)).
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
	close(c.exited)
	c.dismiss()
	c.killGroup()
	if c.mayLeave() {
		c.killRest() // so that nothing keeps the streams open
	}
	_ = process.Wait(c.cmd)
}
