package supervise

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the one that leader was started on in the foreground, lent to the command for its life: only the
// foreground process group may read from a terminal, and only it gets Ctrl-C. A nil terminal is none: stdin is something
// else, or leader itself is in the background.
type terminal struct {
	fd    int
	group int         // leader's own
	state *term.State // as it was
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

// lend has the command put in the foreground between its fork and its exec, so that it cannot read too early. Ctrl-Z is
// switched off: it would stop the command only, and leader would hold the resource while nothing works on it.
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

// shield keeps leader, now in the background, from being stopped when it writes its log. It comes after the start of
// the command, which would inherit it.
func (t *terminal) shield() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU, syscall.SIGTTIN)
	}
}

// takeBack undoes all of it, and what the command has done to the terminal and had no time to undo.
func (t *terminal) takeBack() {
	if t == nil {
		return
	}
	t.shield()
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group)
	_ = term.Restore(t.fd, t.state)
	signal.Reset(syscall.SIGTTOU, syscall.SIGTTIN)
}
