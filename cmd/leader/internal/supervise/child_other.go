//go:build unix && !linux

package supervise

import (
	"syscall"

	"github.com/ringfence/ringfence/internal/process"
)

// dieWithParent does nothing, since only Linux can tie a process to its parent. When leader is
// killed with KILL on this system, the command keeps running, and only the fence contains it.
func dieWithParent(*syscall.SysProcAttr) {}

// finish waits for the command to end and ends the rest of its group. On this system, to wait for
// the command is to reap it. Another group could get its number in the moment before the kill, if
// process ids were reused that fast.
func (c *Child) finish() {
	_ = process.Wait(c.cmd)
	close(c.exited)
	c.dismiss()
	c.killGroup()
}
