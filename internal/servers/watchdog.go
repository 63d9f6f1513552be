package servers

import (
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// watchdog is a shell that kills stopped processes when the caller dies. A
// Postgres backend notices that the postmaster is gone and exits, but not while
// it is stopped; and the parent death signal reaches the postmaster only.
type watchdog struct {
	cmd   *exec.Cmd
	leash io.WriteCloser // a line means: go home; end of file: the caller is dead
}

// watch starts a watchdog. The processes are frozen, so the list stays right
// until release.
func watch(all []member) (*watchdog, error) {
	args := []string{"-c", `read line || kill -KILL "$@"`, "watchdog"}
	for _, m := range all {
		args = append(args, strconv.Itoa(m.pid))
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for it
	leash, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &watchdog{cmd: cmd, leash: leash}, nil
}

func (w *watchdog) release() {
	_, _ = io.WriteString(w.leash, "\n")
	_ = w.leash.Close()
	_ = w.cmd.Wait()
}
