package keepalive

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func (t Timeouts) control(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") || t.User == 0 {
		return nil
	}
	var failure error
	err := c.Control(func(fd uintptr) {
		failure = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
			int(t.User.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failure
}
