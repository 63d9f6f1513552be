//go:build unix && !linux

package supervise

import (
	"errors"
	"syscall"
)

// dieWithParent does nothing: only Linux can tie a process to its parent. When leader is killed with KILL here, the
// command goes on, and only the fence contains it.
func dieWithParent(*syscall.SysProcAttr) {}

// finish waits for the command to end and kills the rest of its group. Here the command can only be waited for by
// reaping it; its number could become another's in the moment before the kill, as far as numbers go round that fast.
func (c *Child) finish() {
	_ = c.cmd.Wait()
	c.killGroup()
}

func groupLives(pgid int) bool { return !errors.Is(syscall.Kill(-pgid, 0), syscall.ESRCH) }
