package servers

import (
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// watchdog is a shell that kills stopped processes when the caller dies. The parent death signal
// reaches only the postmaster. A Postgres backend notices that the postmaster is gone and exits,
// but not while it is stopped.
type watchdog struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser // a line ends the watchdog; end of file means that the caller is dead
}

// watch starts a watchdog. The processes are frozen, so the list stays valid until release.
func watch(all []member) (*watchdog, error) {
	args := []string{"-c", `read line || kill -KILL "$@"`, "watchdog"}
	for _, m := range all {
		args = append(args, strconv.Itoa(m.pid))
	}
	cmd := exec.Command("/bin/sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not end it
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &watchdog{cmd: cmd, stdin: stdin}, nil
}

func (w *watchdog) release() {
	_, _ = io.WriteString(w.stdin, "\n")
	_ = w.stdin.Close()
	_ = w.cmd.Wait()
}
