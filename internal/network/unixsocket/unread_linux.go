package unixsocket

import (
	"net"

	"golang.org/x/sys/unix"
)

// Unread returns how much memory a Unix socket uses for what its peer has not read. Zero says that
// the peer has read all; an event counts until it is read whole.
func Unread(c *net.UnixConn) (bytes int, told bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	failed := raw.Control(func(fd uintptr) { bytes, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return bytes, failed == nil && err == nil
}
