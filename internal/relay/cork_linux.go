package relay

import (
	"net"

	"golang.org/x/sys/unix"
)

// Cork has a connection hold back what is written next until it is half-closed, for at most 200 ms. So
// the peer sees the last bytes and the end of the stream at the same time. TCP only.
func Cork(c net.Conn) {
	switch c := c.(type) {
	case *socket:
		c.open.RLock()
		defer c.open.RUnlock()
		if !c.closed {
			cork(c.fd)
		}
	case *net.TCPConn:
		if raw, err := c.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { cork(int(fd)) })
		}
	}
}

func cork(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_CORK, 1) }
