package supervise

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the terminal on which leader was started in the foreground. leader lends it to the
// command as long as that runs, because only the foreground process group may read from a terminal
// and gets Ctrl-C. It is nil if stdin is not a terminal, or leader itself is in the background.
type terminal struct {
	fd    int
	group int         // leader's
	state *term.State // at the start
}

// borrowTerminal returns the terminal to lend, or nil.
func borrowTerminal(stdin io.Reader) *terminal {
	f, ok := stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	t := &terminal{fd: int(f.Fd()), group: unix.Getpgrp()}
	foreground, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil || foreground != t.group {
		return nil
	}
	if t.state, err = term.GetState(t.fd); err != nil {
		return nil
	}
	return t
}

// lend puts the command in the foreground between its fork and its exec, so it cannot read too
// early. It switches Ctrl-Z off, which would stop only the command, while leader held the resource.
func (t *terminal) lend(a *syscall.SysProcAttr) {
	if t == nil {
		return
	}
	if tio, err := unix.IoctlGetTermios(t.fd, getTermios); err == nil {
		tio.Cc[unix.VSUSP] = noCharacter
		_ = unix.IoctlSetTermios(t.fd, setTermios, tio)
	}
	a.Foreground, a.Ctty = true, t.fd
}

// shield keeps leader, now in the background, from being stopped when it writes its log. It must
// follow the start of the command, which would inherit it.
func (t *terminal) shield() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU, syscall.SIGTTIN)
	}
}

// takeBack undoes lend and shield, and restores a terminal that the command has left changed.
func (t *terminal) takeBack() {
	if t == nil {
		return
	}
	t.shield()
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group)
	_ = term.Restore(t.fd, t.state)
	signal.Reset(syscall.SIGTTOU, syscall.SIGTTIN)
}
