package peeruser

import "golang.org/x/sys/unix"

// peer returns who has opened the connection: SO_PEERCRED of unix(7).
func peer(fd int) (Peer, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{User: -1}, err
	}
	return Peer{User: int(c.Uid), Pid: int(c.Pid)}, nil
}
