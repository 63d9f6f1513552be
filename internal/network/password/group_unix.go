//go:build unix

package password

import (
	"os/exec"
	"syscall"
)

// ownGroup has the deadline end the command with the processes that it has started.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
