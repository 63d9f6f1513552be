package peeruser

import (
	"errors"
	"fmt"
	"net"

	"github.com/ringfence/ringfence/internal/network/tally"
)

// ErrUntold means that this system does not tell whose process is at the other end.
var ErrUntold = errors.New("this system does not tell whose process has connected")

// ErrOtherUser is why a connection of another user is closed.
var ErrOtherUser = errors.New("it is another user's")

// Of returns the user of the process at the other end of a connection. On this machine's loopback
// addresses the error is ErrUntold where the system is not Linux.
func Of(c net.Conn) (user int, err error) {
	switch c := c.(type) {
	case *net.UnixConn:
		raw, err := c.SyscallConn()
		if err != nil {
			return -1, err
		}
		failed := raw.Control(func(fd uintptr) { user, err = peer(int(fd)) })
		return user, errors.Join(failed, err)
	case *net.TCPConn:
		return overTCP(c.RemoteAddr().(*net.TCPAddr).AddrPort(), c.LocalAddr().(*net.TCPAddr).AddrPort())
	}
	return -1, fmt.Errorf("%T is no connection of a socket", c)
}

// Listener accepts connections of one user, and of root.
type Listener struct {
	net.Listener
	User   int
	Untold bool       // also those of which the system does not tell the user
	Log    *tally.Log // closed with the listener
}

// Close implements net.Listener.
func (l Listener) Close() error {
	err := l.Listener.Close()
	l.Log.Close()
	return err
}

// Accept implements net.Listener.
func (l Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		user, err := Of(c)
		if err == nil && (user == 0 || user == l.User) || l.Untold && errors.Is(err, ErrUntold) {
			return c, nil
		}
		if err == nil {
			err = ErrOtherUser
		}
		l.Log.Warn("closed a connection", err, "user", user)
		_ = c.Close()
	}
}
