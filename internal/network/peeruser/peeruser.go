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

// Peer is what the system tells of the other end.
type Peer struct {
	User int

	// The process: its number, on a Unix socket of Linux. Or the socket, on a loopback address of
	// Linux: the processes that have it open have a file socket:[Inode].
	Pid   int
	Inode string
}

// Of returns the process at the other end of a connection. On this machine's loopback
// addresses the error is ErrUntold where the system is not Linux.
func Of(c net.Conn) (p Peer, err error) {
	switch c := c.(type) {
	case *net.UnixConn:
		raw, err := c.SyscallConn()
		if err != nil {
			return p, err
		}
		failed := raw.Control(func(fd uintptr) { p, err = peer(int(fd)) })
		return p, errors.Join(failed, err)
	case *net.TCPConn:
		return overTCP(c.RemoteAddr().(*net.TCPAddr).AddrPort(), c.LocalAddr().(*net.TCPAddr).AddrPort())
	}
	return p, fmt.Errorf("%T is no connection of a socket", c)
}

// OnlyUser admits the processes of one user, and of root.
func OnlyUser(user int) func(Peer) error {
	return func(p Peer) error {
		if p.User != 0 && p.User != user {
			return ErrOtherUser
		}
		return nil
	}
}

// Listener accepts the connections that Admit returns no error for.
type Listener struct {
	net.Listener
	Admit  func(Peer) error
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
		p, err := Of(c)
		if err == nil {
			err = l.Admit(p)
		} else if l.Untold && errors.Is(err, ErrUntold) {
			err = nil
		}
		if err == nil {
			return c, nil
		}
		l.Log.Warn("closed a connection", err, "user", p.User)
		_ = c.Close()
	}
}
