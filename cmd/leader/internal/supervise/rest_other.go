//go:build unix && !linux

package supervise

import (
	"errors"
	"syscall"

	"github.com/ringfence/ringfence/internal/process"
)

// cgroup is Linux's.
type cgroup struct{}

func newCgroup() *cgroup { return nil }

func (*cgroup) lend(*syscall.SysProcAttr) {}
func (*cgroup) kill()                     {}
func (*cgroup) close()                    {}

// signalRest sends a signal to what is left of the command's group, and returns that. Signal 0 only
// looks.
func (c *Child) signalRest(s syscall.Signal) (left []process.Process) {
	if c.emptied || errors.Is(syscall.Kill(-c.pgid, s), syscall.ESRCH) {
		return nil
	}
	return []process.Process{{Group: c.pgid}}
}

func (c *Child) isEmpty(left []process.Process) bool { return len(left) == 0 }

func (c *Child) itself() process.Process { return process.Process{Group: c.pgid} }
