package peeruser

import "golang.org/x/sys/unix"

// peer returns the user who has opened the connection: SO_PEERCRED of unix(7).
func peer(fd int) (int, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return -1, err
	}
	return int(c.Uid), nil
}
