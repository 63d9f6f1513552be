//go:build unix

package systemd

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// inherited takes over a descriptor. Children do not get it.
func inherited(fd int, name string) *os.File {
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name)
}

// mustListen fails unless f is a stream socket that listens. A .socket unit with Accept=yes passes
// connections instead.
func mustListen(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var kind, listens int
	var failure error
	err = raw.Control(func(fd uintptr) {
		if kind, failure = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TYPE); failure == nil {
			listens, failure = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		}
	})
	switch {
	case err != nil:
		return err
	case failure != nil:
		return fmt.Errorf("it is not a socket: %w", failure)
	case kind != unix.SOCK_STREAM:
		return errors.New("it is not a stream socket (ListenStream=)")
	case listens == 0:
		return errors.New("it does not listen (Accept=no)")
	}
	return nil
}
